//! What cannot be taken apart is refused by name and before it costs anything.

use super::*;

fn settings() -> AuditSettings {
    AuditSettings {
        seed: 1,
        count: 4,
        settings: "{}".to_owned(),
        requests: Vec::new(),
    }
}

async fn of(bytes: &[u8]) -> Result<Report, AuditError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    audit(file.path(), &settings()).await
}

async fn refused(bytes: &[u8], words: &str) {
    let error = of(bytes).await.unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

#[tokio::test]
async fn what_is_no_component_is_named() {
    refused(b"", "not binary WebAssembly").await;
    refused(b"(component)", "not binary WebAssembly").await;
    refused(b"\0asm\x0d\0\x01\0\xff\xff", "malformed").await;
    refused(b"\x7fELF whatever this is", "not binary WebAssembly").await;
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(200 << 20).unwrap();
    let error = audit(file.path(), &settings()).await.unwrap_err();
    assert!(
        matches!(error, AuditError::Load(LoadError::Large { .. })),
        "{error}"
    );
}

#[tokio::test]
async fn bombs_are_counted_before_they_are_read() {
    let imports: String = (0..10_000)
        .map(|number| format!("(import \"a:b/i{number}\" (instance))"))
        .collect();
    let bomb = component(&format!("(component {imports})"));
    refused(&bomb, " imports, and a component is decoded").await;
    let imports: String = (0..10_000)
        .map(|number| format!("(import \"a\" \"i{number}\" (func))"))
        .collect();
    let bomb = component(&format!("(component (core module {imports}))"));
    refused(&bomb, "10000 imports of its modules").await;
    let modules = "(core module)".repeat(300);
    refused(
        &component(&format!("(component {modules})")),
        "modules and components",
    )
    .await;
    let deep = format!("{}{}", "(component ".repeat(20), ")".repeat(20));
    refused(&component(&deep), "components inside each other").await;
}

#[tokio::test]
async fn what_fits_no_world_is_told_why() {
    let check = async |text: &str, expected: Check, words: &str| {
        let report = of(&component(text)).await.unwrap();
        let misfit = report.misfit.unwrap();
        assert!(misfit.contains(words), "{misfit}");
        let found = report.findings.sorted();
        assert!(found.iter().any(|each| each.check == expected), "{found:?}");
        assert!(report.behaviour.is_none() && report.manifest.is_none());
    };
    check("(module)", Check::OtherWorld, "core module").await;
    check("(component)", Check::OtherWorld, "does not export").await;
    check(
        "(component (import \"wasi:http/outgoing-handler@0.2.0\" (instance)))",
        Check::ForeignImport,
        "wasi:http/outgoing-handler",
    )
    .await;
}

#[tokio::test]
async fn what_the_bytes_say_is_read() {
    let report = of(&component(
        "(component
            (import \"wasi:cli/exit@0.2.0\" (instance))
            (core module
                (memory 1 3)
                (data (i32.const 0) \"count_tokens\\00\")
                (func (param i32) (result i32) local.get 0 i32.extend8_s)))",
    ))
    .await
    .unwrap();
    let facts = &report.facts;
    assert_eq!(facts.imports, ["wasi:cli/exit@0.2.0"]);
    assert_eq!((facts.modules, facts.functions), (1, 1));
    assert_eq!(Vec::from_iter(&facts.features), ["sign_extension"]);
    let memory = Memory {
        initial: 65_536,
        maximum: Some(3 * 65_536),
    };
    assert_eq!(facts.memories, [memory]);
}
