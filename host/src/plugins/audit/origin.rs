//! Where a component says it comes from: the toolchain's `producers` section,
//! and the list of dependencies that `cargo auditable` and its like embed.
//!
//! Both are the author's word and nothing more.

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::ZlibDecoder;
use serde::Deserialize;
use wasmparser::{BinaryReader, ProducersSectionReader};

use crate::rules::audit::finding::shown;

/// The section that holds dependencies: zlib over JSON.
pub(super) const DEPENDENCIES: &str = ".dep-v0";

const MOST_DECOMPRESSED: u64 = 2 * 1024 * 1024;
const MOST_DEPENDENCIES: usize = 2_000;
const MOST_PRODUCERS: usize = 100;

/// What made it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Producer {
    /// `language`, `processed-by` or `sdk`.
    pub field: String,
    /// The tool or language.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What it is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it came from, such as `crates.io`.
    pub source: String,
}

/// Reads a `producers` section into `all`; an error in words.
pub(super) fn producers(
    data: &[u8],
    offset: usize,
    all: &mut BTreeSet<Producer>,
) -> Result<(), String> {
    let section = ProducersSectionReader::new(BinaryReader::new(data, offset));
    for field in section.map_err(text)? {
        let field = field.map_err(text)?;
        for value in field.values {
            let value = value.map_err(text)?;
            if all.len() == MOST_PRODUCERS {
                return Err(format!("it names more than {MOST_PRODUCERS}"));
            }
            all.insert(Producer {
                field: shown(field.name),
                name: shown(value.name),
                version: shown(value.version),
            });
        }
    }
    Ok(())
}

/// Reads a list of dependencies into `all`; an error in words.
pub(super) fn dependencies(data: &[u8], all: &mut BTreeSet<Dependency>) -> Result<(), String> {
    #[derive(Deserialize)]
    struct List {
        packages: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
        #[serde(default)]
        source: String,
    }
    let mut json = Vec::new();
    ZlibDecoder::new(data)
        .take(MOST_DECOMPRESSED + 1)
        .read_to_end(&mut json)
        .map_err(text)?;
    if json.len() as u64 > MOST_DECOMPRESSED {
        return Err(format!("it unpacks to more than {MOST_DECOMPRESSED} bytes"));
    }
    let list: List = serde_json::from_slice(&json).map_err(text)?;
    if list.packages.len() > MOST_DEPENDENCIES {
        return Err(format!("it names more than {MOST_DEPENDENCIES}"));
    }
    all.extend(list.packages.into_iter().map(|package| Dependency {
        name: shown(&package.name),
        version: shown(&package.version),
        source: shown(&package.source),
    }));
    Ok(())
}

fn text(cause: impl ToString) -> String {
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn packed(json: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(json).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn dependencies_are_read_as_cargo_auditable_writes_them() {
        let json = br#"{"packages":[{"name":"serde","version":"1.0.0","source":"crates.io"},
            {"name":"p","version":"0.1.0","source":"local","root":true,"dependencies":[0]}]}"#;
        let mut all = BTreeSet::new();
        dependencies(&packed(json), &mut all).unwrap();
        let names: Vec<&str> = all.iter().map(|each| each.name.as_str()).collect();
        assert_eq!(names, ["p", "serde"]);
    }

    #[test]
    fn what_unpacks_without_end_is_not_unpacked() {
        let bomb = packed(&vec![b' '; 64 << 20]);
        let mut all = BTreeSet::new();
        let error = dependencies(&bomb, &mut all).unwrap_err();
        assert!(error.contains("unpacks to more"), "{error}");
        assert!(dependencies(b"no zlib", &mut all).is_err());
        assert!(dependencies(&packed(b"[]"), &mut all).is_err());
    }
}
