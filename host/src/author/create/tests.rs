//! A project is written once, and renewed in what it vendors alone.

use super::*;

fn make(parent: &Path, name: &str) -> Result<PathBuf, CreateError> {
    create(parent, name, &[], World::Capability, Language::Rust)
}

#[test]
fn what_is_there_is_left_as_it_is() {
    let parent = tempfile::tempdir().unwrap();
    fs::create_dir(parent.path().join("weather")).unwrap();
    assert!(matches!(
        make(parent.path(), "weather"),
        Err(CreateError::Taken(_))
    ));
    assert_eq!(
        fs::read_dir(parent.path().join("weather")).unwrap().count(),
        0
    );
    fs::write(parent.path().join("hail"), "mine").unwrap();
    assert!(matches!(
        make(parent.path(), "hail"),
        Err(CreateError::Taken(_))
    ));
    assert_eq!(fs::read(parent.path().join("hail")).unwrap(), b"mine");
    std::os::unix::fs::symlink("elsewhere", parent.path().join("rain")).unwrap();
    assert!(matches!(
        make(parent.path(), "rain"),
        Err(CreateError::Taken(_))
    ));
}

#[test]
fn what_was_vendored_is_renewed_and_the_rest_is_the_authors() {
    let parent = tempfile::tempdir().unwrap();
    let project = make(parent.path(), "weather").unwrap();
    let (old, own) = (
        project.join("vendor/sdk/src/old.rs"),
        project.join("src/lib.rs"),
    );
    fs::write(&old, "old").unwrap();
    fs::write(&own, "own").unwrap();
    fs::write(project.join("vendor/wit/types.wit"), "old").unwrap();
    renew(&project).unwrap();
    assert!(!old.exists());
    assert_eq!(fs::read(&own).unwrap(), b"own");
    let contract = fs::read_to_string(project.join("vendor/wit/types.wit")).unwrap();
    assert!(contract.contains("package jackfield:plugin"));
    assert!(matches!(renew(parent.path()), Err(CreateError::NotOurs(_))));
}
