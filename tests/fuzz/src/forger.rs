//! The forger: a component written by hand, whose answers are raw memory.
//!
//! A plugin written in any language hands over well-formed lists and texts,
//! since its compiler made them. The forger takes its answer from the request:
//! the body (for `resume`, the state) is copied to [`SAID_AT`] and handed over
//! as if it were the answer. Lengths, pointers and discriminants are whatever
//! stands there.

use std::path::Path;

use anyhow::Result;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Where in its memory the forged answer lies. Pointers into it are this plus
/// an offset.
pub const SAID_AT: u32 = 0x1_0000;

/// How much of a body it takes.
pub const SAID_MOST: u32 = 0x1_0000;

/// The prefix that it serves.
pub const PREFIX: &str = "/forger";

/// The forger's name.
pub const NAME: &str = "forger";

const MANIFEST_AT: u32 = 1024;

/// The component, for the contract in this folder.
pub fn component(wit: &Path) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit)?;
    let world = resolve.select_world(&[package], Some("capability"))?;
    let mut module = wat::parse_str(module())?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .module(&module)?
        .validate(true)
        .encode()
}

fn module() -> String {
    let manifest: String = manifest()
        .iter()
        .map(|byte| format!("\\{byte:02x}"))
        .collect();
    let export = |name: &str| format!("(export \"jackfield:plugin/decisions@0.1.0#{name}\")");
    let (describe, scopes, route, resume) = (
        export("describe"),
        export("scopes"),
        export("route"),
        export("resume"),
    );
    format!(
        r#"(module
  (memory (export "memory") 4)
  (global $free (mut i32) (i32.const 0x30000))
  (data (i32.const {MANIFEST_AT}) "{manifest}")

  ;; Gives room and never takes it back: an instance lives for one request.
  (func (export "cabi_realloc") (param i32 i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32) (local $end i32)
    (local.set $at (i32.and
      (i32.sub (i32.add (global.get $free) (local.get $align)) (i32.const 1))
      (i32.sub (i32.const 0) (local.get $align))))
    (local.set $end (i32.add (local.get $at) (local.get $size)))
    (block $fits
      (loop $more
        (br_if $fits (i32.le_u (local.get $end) (i32.mul (memory.size) (i32.const 65536))))
        (if (i32.eq (memory.grow (i32.const 4)) (i32.const -1)) (then unreachable))
        (br $more)))
    (global.set $free (local.get $end))
    (local.get $at))

  (func $say (param $from i32) (param $length i32) (result i32)
    (if (i32.gt_u (local.get $length) (i32.const {SAID_MOST}))
      (then (local.set $length (i32.const {SAID_MOST}))))
    (memory.copy (i32.const {SAID_AT}) (local.get $from) (local.get $length))
    (i32.const {SAID_AT}))

  (func {describe} (result i32) (i32.const {MANIFEST_AT}))
  ;; The body of a request lies 48 bytes into it.
  (func {scopes} (param $request i32) (result i32)
    (call $say (i32.load offset=48 (local.get $request)) (i32.load offset=52 (local.get $request))))
  (func {route} (param $request i32) (result i32)
    (call $say (i32.load offset=48 (local.get $request)) (i32.load offset=52 (local.get $request))))
  ;; State, calls, reads, lists, owned: a pointer and a length each.
  (func {resume} (param $state i32) (param $length i32) (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    (call $say (local.get $state) (local.get $length)))
)"#
    )
}

/// The one honest thing it says, laid out as the canonical ABI wants it.
fn manifest() -> Vec<u8> {
    let mut image = Image::default();
    // The record itself comes first: 84 bytes.
    image.bytes.resize(84, 0);
    let fields = [NAME, "0.1.0", NAME, "Says whatever it is told to"];
    for (field, text) in (0..).zip(fields) {
        let (at, length) = image.text(text);
        image.set(field * 8, &[at, length]);
    }

    let (prefix, prefix_length) = image.text(PREFIX);
    let route = image.room(64);
    // No methods, the prefix, not public, the token in `Authorization` alone,
    // a body of up to 64 KiB, nobody's payer.
    image.set(route + 8, &[prefix, prefix_length]);
    image.set(route + 44, &[SAID_MOST]);
    image.set(32, &[MANIFEST_AT + route, 1]);

    let (word, word_length) = image.text("word");
    let (upstream, upstream_length) = image.text("anthropic");
    let target = image.room(12);
    image.set(target + 4, &[upstream, upstream_length]);
    let entry = image.room(24);
    image.set(
        entry,
        &[
            word,
            word_length,
            word,
            word_length,
            MANIFEST_AT + target,
            1,
        ],
    );
    image.set(40, &[MANIFEST_AT + entry, 1]);

    let (path, path_length) = image.text("/literal");
    let paths = image.room(8);
    image.set(paths, &[path, path_length]);
    image.set(48, &[MANIFEST_AT + paths, 1]);

    let (kind, kind_length) = image.text("things");
    let kinds = image.room(8);
    image.set(kinds, &[kind, kind_length]);
    // It keeps, journals, and owns things.
    image.set(56, &[0x0101, MANIFEST_AT + kinds, 1]);
    image.bytes
}

/// Memory as a plugin would have laid it out.
#[derive(Default)]
struct Image {
    bytes: Vec<u8>,
}

impl Image {
    /// Room for so many bytes; its offset.
    fn room(&mut self, size: usize) -> u32 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len();
        self.bytes.resize(at + size, 0);
        at as u32
    }

    /// A text; its address and length.
    fn text(&mut self, text: &str) -> (u32, u32) {
        let at = self.bytes.len() as u32;
        self.bytes.extend(text.as_bytes());
        (MANIFEST_AT + at, text.len() as u32)
    }

    /// Writes numbers at an offset.
    fn set(&mut self, at: u32, numbers: &[u32]) {
        for (at, number) in (at as usize..).step_by(4).zip(numbers) {
            self.bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
    }
}
