//! Names, worlds, languages, and what a new project holds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Every file below a folder, by its path below the repository.
fn below(folder: &str, end: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|has| has == end) {
                let path = path.strip_prefix(root()).unwrap();
                found.insert(path.to_str().unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn the_whole_sdk_is_carried_and_nothing_else() {
    let carried: BTreeSet<String> = carried::VENDORED
        .iter()
        .map(|file| file.path.to_owned())
        .collect();
    let mut there = below("wit", "wit");
    for part in ["sdk/src", "sdk/testkit/src"] {
        there.extend(below(part, "rs"));
    }
    there.extend(["LICENSE", "sdk/Cargo.toml", "sdk/testkit/Cargo.toml"].map(str::to_owned));
    assert_eq!(carried, there);
}

#[test]
fn a_name_is_a_plugins_and_meets_no_prefix_of_the_hosts() {
    let check = |text: &str, expected: bool| {
        assert_eq!(name(text, &["/api/box"]).is_ok(), expected, "{text:?}");
    };
    check("weather", true);
    check("my-notes-2", true);
    check("apiary", true);
    check("api", false);
    check("Weather", false);
    check("../x", false);
    check("a/b", false);
    check("", false);
    check("9", false);
}

#[test]
fn what_there_is_not_is_refused_by_name() {
    for world in [
        "tool",
        "selection-policy",
        "supply-source",
        "Capability",
        "",
    ] {
        let refused = World::parse(world).unwrap_err().to_string();
        assert!(refused.contains("capability"), "{refused}");
    }
    for language in ["js", "python", "Rust"] {
        let refused = Language::parse(language).unwrap_err().to_string();
        assert!(
            refused.contains(language) && refused.contains("rust"),
            "{refused}"
        );
    }
    let long = "x".repeat(1000);
    assert!(World::parse(&long).unwrap_err().to_string().len() < 300);
}

#[test]
fn a_template_is_filled_and_leaves_no_gap() {
    let name = name("my-notes", &[]).unwrap();
    for file in files(&name, "my-notes", World::Capability, Language::Rust) {
        assert!(!file.text.contains("{{"), "{}", file.path.display());
        let is_manifest = file.path.ends_with("Cargo.toml");
        assert!(
            !is_manifest || !file.text.contains("workspace = true"),
            "{}: {}",
            file.path.display(),
            file.text
        );
    }
    assert_eq!(type_name(&name), "MyNotes");
}

#[test]
fn the_vendored_manifests_stand_alone() {
    for file in vendored() {
        if !file.path.ends_with("Cargo.toml") {
            continue;
        }
        let read: toml::Table = file.text.parse().unwrap();
        let package = read["package"].as_table().unwrap();
        assert_eq!(package["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
        for key in ["edition", "rust-version", "license"] {
            assert!(package[key].is_str(), "{key} of {}", file.path.display());
        }
        assert!(!read.contains_key("lints"));
    }
}
