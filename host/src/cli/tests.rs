//! The command line: what parses, what does not, and what is never repeated.

use clap::CommandFactory;

use super::*;

#[test]
fn the_arguments_fit_together() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_is_read() {
    let check = |line: &str, expected: bool| {
        let arguments = std::iter::once("jackfield").chain(line.split_whitespace());
        let read = Cli::try_parse_from(arguments);
        assert_eq!(read.is_ok(), expected, "{line}: {read:?}");
    };
    check("serve", true);
    check("serve --demo --json", true);
    check("serve --approve-plugins --config x.toml", true);
    check("--config x.toml --json serve", true);
    check("serve --conformance", true);
    check(
        "serve --conformance --plugins-dir d --extra-plugin a --extra-plugin b",
        true,
    );
    check("serve --conformance --demo", false);
    check("serve --plugins-dir d", false);
    check("serve --extra-plugin a", false);
    check("conformance --start x", true);
    check(
        "conformance --start x --capabilities inference,inference --timeout 5 --start-timeout 9 --name n --broker b --json",
        true,
    );
    check("conformance", false);
    check("conformance --start x --capabilities telepathy", false);
    check("conformance --start x --timeout 0", false);
    check("conformance --start x --extra {}", false);
    check("box add alice", true);
    check("box add alice --json --config x", true);
    check("box add Alice", false);
    check("box add", false);
    check("box list", true);
    check("box rotate a", true);
    check("box remove a", true);
    check("box pause a", true);
    check("box resume a", true);
    check("box env a --json", true);
    check("box own a conversations c-1", true);
    check("box own a Conversations c-1", false);
    check("box own a conversations", false);
    check("box disown a conversations c-1", true);
    check("box owned a --json", true);
    check("journal p", true);
    check(
        "journal p --box a --since 2026-01-31T12:00:00Z --json",
        true,
    );
    check("journal p --prune 2026-01-31T12:00:00Z", true);
    check("journal p --prune yesterday", false);
    check("journal p --prune 2026-01-31T12:00:00Z --box a", false);
    check("journal", false);
    check("secret set KEY --box a --host h", true);
    check(
        "secret set KEY --box a --host h --allow GET/ --allow POST/x --allow-private --extra-ca f --short --from-file v",
        true,
    );
    check("secret set KEY --box a", false);
    check("secret set KEY --host h", false);
    check("secret set key --box a --host h", false);
    // A value is never an argument.
    check("secret set KEY value --box a --host h", false);
    check("secret set KEY --box a --host h --value v", false);
    check("secret list", true);
    check("secret list --box a", true);
    check("secret remove KEY --box a", true);
    check("secret remove KEY", false);
    check("credential set models --kind api-key", true);
    check(
        "credential set models --kind setup-token --payer owner --principal github:x --box a --name n --from-file f",
        true,
    );
    check("credential set models --kind bearer --payer visitor", true);
    check("credential set models", false);
    check("credential set models --kind secret", false);
    check("credential set models value --kind api-key", false);
    check("credential list", true);
    check("credential remove models", true);
    check("credential remove models --name n", true);
    check("grant issue --box a --credential n", true);
    check(
        "grant issue --box a --credential u/n --ttl 24h --json",
        true,
    );
    check("grant issue --box a", false);
    check("grant issue --credential n", false);
    check("grant issue --box a --credential n --ttl 25h", false);
    check("grant issue --box a --credential n --ttl 0s", false);
    check("grant list", true);
    check("grant list --box a --json", true);
    check("grant revoke 0123456789abcdef", true);
    check("grant revoke --box a", true);
    check("grant revoke", false);
    check("grant revoke 01 --box a", false);
    check("grant revoke ../boxes/a", false);
    check("plugin revoke inference", true);
    check(
        "plugin revoke 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
        true,
    );
    check("plugin revoke 001122", false);
    check("plugin revoke", false);
    check("plugin list", true);
    check("plugin build", true);
    check("plugin build a b --out c", true);
    check("plugin approve inference", true);
    check("plugin approve", false);
    check("config check", true);
    check("config example", true);
    check("nonsense", false);
    check("", false);
}

#[tokio::test]
async fn without_a_host_a_command_says_how_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("jackfield.toml");
    std::fs::write(&config, "").unwrap();
    let config = config.display().to_string();
    for line in [
        "box list",
        "secret list",
        "credential list",
        "plugin list",
        "box add a",
        "grant list",
        "grant revoke 01",
        "plugin revoke inference",
    ] {
        let arguments = ["jackfield", "--config", &config]
            .into_iter()
            .chain(line.split(' '));
        let cli = Cli::try_parse_from(arguments).unwrap();
        let Command::Operate(command) = cli.command else {
            panic!("{line}")
        };
        let error = run(&cli.global, command).await.unwrap_err().to_string();
        assert!(error.contains("no host is running"), "{line}: {error}");
        assert!(error.contains("jackfield serve"), "{line}: {error}");
    }
}

#[test]
fn a_value_in_the_wrong_place_is_not_repeated() {
    let check = |line: &str, shown: bool| {
        let arguments = std::iter::once("jackfield").chain(line.split(' '));
        let error = without_values(Cli::try_parse_from(arguments).unwrap_err());
        let text = error.to_string();
        assert_eq!(text.contains("sk-value"), shown, "{line}: {text}");
        assert_eq!(text.contains("standard input"), !shown, "{line}: {text}");
        assert_eq!(error.exit_code(), 2);
    };
    check("secret set KEY sk-value --box a --host h", false);
    check("secret set KEY --box a --host h sk-value", false);
    check("credential set models sk-value --kind api-key", false);
    check("credential set models --kind api-key --sk-value", true);
}
