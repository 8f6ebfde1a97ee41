//! Taking a component apart without compiling it: what stands in its bytes,
//! within limits that no plugin needs.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "sections and instructions that the parser learns of later count for nothing here"
)]

use std::collections::BTreeSet;

use wasmparser::{CustomSectionReader, Encoding, Parser, Payload};
use wasmtime::Engine;

use crate::plugins::audit::origin::{self, Dependency, Producer};
use crate::plugins::audit::{AuditError, features};
use crate::plugins::error::LoadError;
use crate::rules::audit::finding::{Check, Findings, shown};
use crate::rules::audit::requests::Hints;

/// What a component may import by itself.
const MOST_IMPORTS: u64 = 256;
/// What its modules may import, of each other and all together.
const MOST_MODULE_IMPORTS: u64 = 8_192;
/// Modules and components in it.
const MOST_PARTS: u64 = 256;
/// How deep they lie in each other.
const MOST_DEPTH: u64 = 16;
/// Everything else that is counted: types, instances, aliases, exports.
const MOST_ITEMS: u64 = 200_000;
/// Functions with a body.
const MOST_FUNCTIONS: u64 = 200_000;

const PAGE: u64 = 64 * 1024;

/// What a component's bytes say.
#[derive(Debug, Clone, Default)]
pub struct Static {
    /// What it imports, by name, of whoever runs it.
    pub imports: Vec<String>,
    /// What made it, in its own words.
    pub producers: BTreeSet<Producer>,
    /// What it is made of, in its own words.
    pub dependencies: BTreeSet<Dependency>,
    /// Proposals of WebAssembly beyond the first version that its code uses.
    pub features: BTreeSet<String>,
    /// The memories that its modules define.
    pub memories: Vec<Memory>,
    /// How many core modules it holds.
    pub modules: u64,
    /// How many functions they define.
    pub functions: u64,
    /// Texts that may be of the API that it serves.
    pub hints: Hints,
}

/// A memory that a module defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The bytes that it begins with.
    pub initial: u64,
    /// The most that it grows to; none where it does not say.
    pub maximum: Option<u64>,
}

/// Reads all there is.
///
/// # Errors
/// When it is malformed, compiled already, no WebAssembly, or too much.
pub(super) fn decode(bytes: &[u8], findings: &mut Findings) -> Result<Static, AuditError> {
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled.into());
    }
    if bytes.get(..4) != Some(b"\0asm") {
        return Err(LoadError::NotWasm.into());
    }
    let mut decoder = Decoder {
        facts: Static::default(),
        findings,
        counts: Counts::default(),
        depth: 0,
    };
    // The counts come first, so that nothing is read of what is too much.
    for payload in Parser::new(0).parse_all(bytes) {
        decoder.count(&payload.map_err(malformed)?)?;
    }
    decoder.depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        decoder.read(payload.map_err(malformed)?)?;
    }
    Ok(decoder.facts)
}

struct Decoder<'a> {
    facts: Static,
    findings: &'a mut Findings,
    counts: Counts,
    depth: u64,
}

#[derive(Default)]
struct Counts {
    imports: u64,
    module_imports: u64,
    parts: u64,
    items: u64,
    functions: u64,
}

impl Decoder<'_> {
    fn count(&mut self, payload: &Payload<'_>) -> Result<(), AuditError> {
        let counts = &mut self.counts;
        let (of, more, most, what) = match payload {
            Payload::ComponentImportSection(section) => (
                &mut counts.imports,
                section.count(),
                MOST_IMPORTS,
                "imports",
            ),
            Payload::ImportSection(section) => (
                &mut counts.module_imports,
                section.count(),
                MOST_MODULE_IMPORTS,
                "imports of its modules",
            ),
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.depth += 1;
                within(self.depth, MOST_DEPTH, "components inside each other")?;
                (&mut counts.parts, 1, MOST_PARTS, "modules and components")
            }
            Payload::End(_) => {
                self.depth = self.depth.saturating_sub(1);
                return Ok(());
            }
            Payload::CodeSectionStart { count, .. } => {
                (&mut counts.functions, *count, MOST_FUNCTIONS, "functions")
            }
            other => match items(other) {
                Some(count) => (
                    &mut counts.items,
                    count,
                    MOST_ITEMS,
                    "types, exports and other items",
                ),
                None => return Ok(()),
            },
        };
        *of += u64::from(more);
        within(*of, most, what)
    }

    fn read(&mut self, payload: Payload<'_>) -> Result<(), AuditError> {
        match payload {
            Payload::ModuleSection { .. } => {
                self.depth += 1;
                self.facts.modules += 1;
            }
            Payload::ComponentSection { .. } => self.depth += 1,
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } if self.depth == 0 => self.facts.modules += 1,
            // What an inner component imports, an outer one gives.
            Payload::ComponentImportSection(section) if self.depth == 0 => {
                for import in section {
                    let import = import.map_err(malformed)?;
                    self.facts.imports.push(shown(import.name.name));
                }
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory.map_err(malformed)?;
                    let page = memory
                        .page_size_log2
                        .map_or(PAGE, |log| 1_u64.checked_shl(log).unwrap_or(PAGE));
                    self.facts.memories.push(Memory {
                        initial: memory.initial.saturating_mul(page),
                        maximum: memory.maximum.map(|pages| pages.saturating_mul(page)),
                    });
                    self.feature(memory.memory64, "memory64");
                    self.feature(memory.shared, "threads");
                    self.feature(memory.page_size_log2.is_some(), "custom_page_sizes");
                }
            }
            Payload::CodeSectionEntry(body) => {
                self.facts.functions += 1;
                let mut operators = body.get_operators_reader().map_err(malformed)?;
                while !operators.eof() {
                    let operator = operators.read().map_err(malformed)?;
                    let proposal = features::proposal(&operator);
                    self.feature(proposal != "mvp", proposal);
                    if let Some(text) = features::spelled(&operator) {
                        self.facts.hints.add(&text);
                    }
                }
            }
            Payload::DataSection(section) => {
                for data in section {
                    self.hints(data.map_err(malformed)?.data);
                }
            }
            Payload::CustomSection(section) => self.custom(&section),
            _ => {}
        }
        Ok(())
    }

    fn feature(&mut self, used: bool, name: &str) {
        if used && !self.facts.features.contains(name) {
            self.facts.features.insert(name.to_owned());
        }
    }

    fn hints(&mut self, data: &[u8]) {
        let is_text = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        for part in data.split(|byte| !is_text(byte)) {
            if let Ok(text) = std::str::from_utf8(part) {
                self.facts.hints.add(text);
            }
        }
    }

    fn custom(&mut self, section: &CustomSectionReader<'_>) {
        let read = match section.name() {
            "producers" => origin::producers(
                section.data(),
                section.data_offset(),
                &mut self.facts.producers,
            ),
            origin::DEPENDENCIES => {
                origin::dependencies(section.data(), &mut self.facts.dependencies)
            }
            _ => return,
        };
        if let Err(cause) = read {
            let what = format!("its section {}: {cause}", section.name());
            self.findings.add(Check::UnreadableOrigin, what, None);
        }
    }
}

/// How many items a section holds, where it is one that is only counted.
fn items(payload: &Payload<'_>) -> Option<u32> {
    match payload {
        Payload::TypeSection(section) => Some(section.count()),
        Payload::CoreTypeSection(section) => Some(section.count()),
        Payload::ComponentTypeSection(section) => Some(section.count()),
        Payload::ExportSection(section) => Some(section.count()),
        Payload::ComponentExportSection(section) => Some(section.count()),
        Payload::InstanceSection(section) => Some(section.count()),
        Payload::ComponentInstanceSection(section) => Some(section.count()),
        Payload::ComponentAliasSection(section) => Some(section.count()),
        Payload::ComponentCanonicalSection(section) => Some(section.count()),
        Payload::TableSection(section) => Some(section.count()),
        Payload::MemorySection(section) => Some(section.count()),
        Payload::GlobalSection(section) => Some(section.count()),
        Payload::TagSection(section) => Some(section.count()),
        Payload::ElementSection(section) => Some(section.count()),
        Payload::DataSection(section) => Some(section.count()),
        _ => None,
    }
}

fn within(count: u64, most: u64, what: &'static str) -> Result<(), AuditError> {
    if count <= most {
        return Ok(());
    }
    Err(AuditError::TooMany { what, count, most })
}

fn malformed(cause: wasmparser::BinaryReaderError) -> AuditError {
    AuditError::Load(LoadError::Malformed(shown(&cause.to_string())))
}
