//! Tables for the configuration: what is read, and what is refused where.

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/jackfield/jackfield.toml"))
}

#[test]
fn a_fault_is_refused_with_its_line_and_a_hint() {
    let check = |text: &str, line: usize, said: &str| {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line(), Some(line), "{text:?}: {error}");
        let message = error.to_string();
        assert!(message.contains(said), "{text:?}: {message}");
        assert!(message.contains(&format!("line {line}")), "{message}");
    };
    check(
        "\nlisen = \"127.0.0.1:1\"",
        2,
        "unknown key `lisen`; did you mean `listen`?",
    );
    check(
        "broker = \"x\"\n\n[tls]\ncrt = \"a\"\n",
        4,
        "did you mean `cert`?",
    );
    check("[limits]\nidle = 3", 2, "unknown key `idle`");
    check(
        "[limits]\nidle_second = 3",
        2,
        "did you mean `idle_seconds`?",
    );
    check("[log]\nlevle = \"info\"", 2, "did you mean `level`?");
    check(
        "[upstreams.x]\nurl = \"http://h\"\nallow_privat = true",
        3,
        "did you mean `allow_private`?",
    );
    check("[plugins.x]\ngrants = []", 2, "did you mean `grant`?");
    check("zzz = 1", 1, "known here: broker, listen");
    check("broker = 3", 1, "invalid type");
    check("listen = \"8787\"", 1, "address and a port");
    check("\n\nlisten = \"localhost:8787\"", 3, "address and a port");
    check("broker = \"\"", 1, "1 to 64 characters");
    check("broker = \"a\\u0007\"", 1, "control character");
    check(
        "public_url = \"broker.example.com\"",
        1,
        "http:// or https://",
    );
    check("public_url = \"https://h/a?b\"", 1, "no query");
    check("public_url = \"https://h/{x}\"", 1, "plain path");
    check("[upstreams.x]\nurl = \"ftp://h\"", 2, "http or https");
    check(
        "[upstreams.x]\nurl = \"https://h/a/../b\"",
        2,
        "dot segment",
    );
    check("[upstreams.x]\nurl = \"https://h/a//b\"", 2, "plain path");
    check(
        "[upstreams.x]\nurl = \"https://u:p@h\"",
        2,
        "no user and no password",
    );
    check("[upstreams.x]\nallow_private = true", 1, "needs a `url`");
    check(
        "[upstreams.X]\nurl = \"https://h\"",
        1,
        "not a upstream name",
    );
    check("[plugins.\"a b\"]\ngrant = []", 1, "plugin name");
    check(
        "[plugins.a]\ntrusted_keys = [\n  \"RWx\"]",
        3,
        "not a public key of minisign",
    );
    check(
        "[plugins.a]\nrequire_signature = true",
        2,
        "needs trusted_keys",
    );
    check(
        "[plugins.a]\ntrusted_key = []",
        2,
        "did you mean `trusted_keys`?",
    );
    check(
        "[plugins.a]\ngrant = [\n  \"upstream:ok\",\n  \"everything\"]",
        4,
        "cannot be granted",
    );
    check(
        "[plugins.a]\ngrant = [\"secret:lower\"]",
        2,
        "cannot be granted",
    );
    check("[tls]\ncert = \"a\"", 1, "needs both");
    check("token_headers = [\"a b\"]", 1, "not a header name");
    check(
        "token_headers = [\"Authorization\"]",
        1,
        "means something else",
    );
    check(
        "token_headers = [\"x-a\",\n\"cookie\"]",
        2,
        "means something else",
    );
    check("state_dir = \"\"", 1, "must not be empty");
    check(
        "[limits]\nidle_seconds = 0",
        2,
        "idle_seconds must be 1 to 86400, not 0",
    );
    check("[limits]\nhead_bytes = 10", 2, "head_bytes must be");
    check("[limits]\nrounds = -1", 2, "invalid value");
    check(
        "[limits]\nbuffered_bytes_per_box = 1000",
        2,
        "buffered_bytes_per_box must be 4194304 to",
    );
    check(
        "[limits]\nbuffered_bytes_per_box = 5000000\nbuffered_bytes_per_plugin = 9999999",
        3,
        "buffered_bytes_per_plugin must be 10000000 to",
    );
    check(
        "[limits]\nbuffered_bytes = 33554432",
        2,
        "buffered_bytes must be 134217728 to",
    );
    check(
        "[limits]\nplugin_instances = 4\ninstances_per_plugin = 5",
        3,
        "instances_per_plugin must be 1 to 4, not 5",
    );
    check(
        "[limits]\ninstances_per_plugin = 4\ninstances_per_box = 5",
        3,
        "instances_per_box must be 1 to 4, not 5",
    );
    check(
        "[limits]\nlog_bytes_per_box = 9999\nlog_bytes_per_plugin = 9998",
        3,
        "log_bytes_per_plugin must be 9999 to",
    );
    check(
        "[limits]\njournal_bytes = 9999\njournal_bytes_per_box = 10000",
        3,
        "journal_bytes_per_box must be 0 to 9999, not 10000",
    );
    check("[log]\nlevel = \"inof\"", 2, "did you mean \"info\"?");
    check("[env]\n\"A-B\" = \"x\"", 2, "variable's name");
    check("[env]\nA = \"{NAME}\"", 2, "{public_url}");
    check("[env]\nA = \"{secret}\"", 2, "no other brace");
    check("[env]\nA = \"a\\nb\"", 2, "control character");
    check("broker = \"a\"\nbroker = \"b\"", 2, "duplicate key");
    check("broker = ", 1, "");
}

#[test]
fn without_a_file_the_defaults_hold() {
    let config = Config::defaults(Path::new("/srv")).unwrap();
    assert_eq!(config.broker, "lobby");
    assert_eq!(config.listen.to_string(), "127.0.0.1:8787");
    assert_eq!(config.state_dir, Path::new("/srv/jackfield-state"));
    assert_eq!(
        config.plugins_dir,
        Path::new("/srv/jackfield-state/plugins")
    );
    let anthropic = &config.upstreams[&UpstreamName::parse("anthropic").unwrap()];
    assert_eq!(anthropic.origin.to_string(), "https://api.anthropic.com");
    assert!(!anthropic.allow_private);
}

#[test]
fn what_is_written_is_what_holds() {
    let config = parse(
        r#"
        broker = "house"
        listen = "[::1]:0"
        public_url = "https://B.example.com/base/"
        state_dir = "/var/lib/jackfield"
        [tls]
        cert = "a.pem"
        key = "/b.pem"
        [upstreams.anthropic]
        allow_private = true
        [upstreams.fountain]
        url = "http://10.0.0.1:8080/v2/"
        extra_ca = "ca.pem"
        [plugins.inference]
        grant = ["upstream:anthropic", "secret:<NAME>", "secret:A", "keep", "journal"]
        [plugins.inference.settings]
        since = 2026-01-01
        [limits]
        drain_seconds = 1
        [log]
        format = "json"
        [env]
        STUDIO_URL = ""
        ANTHROPIC_API_KEY = "{token}"
        "#,
    )
    .unwrap();
    assert_eq!(
        config.public_url.as_deref(),
        Some("https://b.example.com/base")
    );
    assert_eq!(config.plugins_dir, Path::new("/var/lib/jackfield/plugins"));
    let tls = config.tls.as_ref().unwrap();
    assert_eq!(tls.cert, Path::new("/etc/jackfield/a.pem"));
    assert_eq!(tls.key, Path::new("/b.pem"));
    let anthropic = &config.upstreams[&UpstreamName::parse("anthropic").unwrap()];
    assert!(anthropic.allow_private);
    assert_eq!(anthropic.origin.to_string(), "https://api.anthropic.com");
    let fountain = &config.upstreams[&UpstreamName::parse("fountain").unwrap()];
    assert_eq!(fountain.base_path, "/v2");
    let plugin = &config.plugins[&PluginName::parse("inference").unwrap()];
    assert_eq!(plugin.grant.as_ref().unwrap().len(), 5);
    assert_eq!(
        plugin.settings.as_deref(),
        Some(r#"{"since":"2026-01-01"}"#)
    );
    assert_eq!(config.limits.drain.as_secs(), 1);
    assert_eq!(config.log.format, LogFormat::Json);
    assert!(!config.env.contains_key("STUDIO_URL"));
    assert_eq!(config.env["ANTHROPIC_API_KEY"], "{token}");
    assert_eq!(
        config.local_url("[::]:443".parse().unwrap()),
        "https://[::1]:443"
    );
}

#[test]
fn a_limit_that_is_not_said_fits_those_that_are() {
    let limits = |text: &str| parse(&format!("[limits]\n{text}")).unwrap().limits;
    let roomy = limits("buffered_body_bytes = 67108864\nlog_bytes_per_box = 33554432");
    assert_eq!(roomy.buffered_bytes_per_box, 67_108_864);
    assert_eq!(roomy.buffered_bytes_per_plugin, 134_217_728);
    assert_eq!(roomy.log_bytes_per_plugin, 33_554_432);
    let one = limits("plugin_instances = 1");
    assert_eq!((one.instances_per_plugin, one.instances_per_box), (1, 1));
    let many = limits("plugin_instances = 1000");
    assert_eq!(
        (many.instances_per_plugin, many.instances_per_box),
        (500, 125)
    );
    assert_eq!(limits("journal_bytes = 10").journal_bytes_per_box, 3);
}

#[test]
fn a_named_file_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let error = Config::load(Some(&folder.path().join("none.toml"))).unwrap_err();
    assert!(error.to_string().contains("no such file"), "{error}");
}

#[test]
fn the_example_says_the_defaults() {
    let config = parse(EXAMPLE).unwrap();
    let defaults = Config::defaults(Path::new("/etc/jackfield")).unwrap();
    assert_eq!(
        Config {
            source: None,
            ..config
        },
        defaults
    );
}

#[test]
fn the_example_loads_with_every_key_in_use() {
    // Recorded inputs need a log, which is off by default.
    let example = in_use(EXAMPLE).replace("mode = \"off\"", "mode = \"must\"");
    let config = parse(&example).unwrap();
    assert!(config.public_url.is_some() && config.tls.is_some() && !config.plugins.is_empty());
}

/// Takes a mistyped key into each table and reads from the refusal which keys
/// there are: the example must hold them all.
#[test]
fn the_example_documents_every_key() {
    let example = in_use(EXAMPLE);
    let mut checked = 0;
    for table in [
        "",
        "[tls]",
        "[upstreams.anthropic]",
        "[plugins.inference]",
        "[limits]",
        "[watch]",
        "[log]",
        "[decision_log]",
    ] {
        let error = parse(&format!("{table}\nqqqqqqqqqqqq = 1"))
            .unwrap_err()
            .to_string();
        let (_, known) = error.split_once("known here: ").unwrap();
        let section = match table {
            "" => example.as_str(),
            table => example.split_once(table).unwrap().1,
        };
        for key in known.split(", ") {
            let as_key = format!("\n{key} = ");
            let as_table = format!("\n[{key}");
            assert!(
                section.contains(&as_key) || section.contains(&as_table),
                "{table} {key}"
            );
            checked += 1;
        }
    }
    assert!(checked >= 43, "{checked}");
}

/// The example with each commented key taken into use.
fn in_use(example: &str) -> String {
    example
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest,
            Some(_) | None => line,
        })
        .fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn inputs_are_recorded_only_beside_a_log() {
    let plugin = "[plugins.a]\nrecord = \"inputs\"\n";
    let error = parse(plugin).unwrap_err().to_string();
    assert!(error.contains("needs a decision log"), "{error}");
    for (mode, known) in [
        ("best-effort", DecisionLogMode::BestEffort),
        ("must", DecisionLogMode::Must),
    ] {
        let config = parse(&format!("{plugin}[decision_log]\nmode = {mode:?}")).unwrap();
        assert_eq!(config.decision_log.mode, known);
        assert!(
            config
                .plugins
                .into_values()
                .all(|plugin| plugin.record_inputs)
        );
    }
    let none = parse("[plugins.a]\nrecord = \"nothing\"").unwrap();
    assert!(
        none.plugins
            .into_values()
            .all(|plugin| !plugin.record_inputs)
    );
    let error = parse("[decision_log]\nmode = \"best\"")
        .unwrap_err()
        .to_string();
    assert!(error.contains("best-effort"), "{error}");
}

#[test]
fn whose_signatures_count_is_read() {
    let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    let policy = |lines: &str| {
        let config = parse(&format!("[plugins.a]\n{lines}")).unwrap();
        let plugin = config.plugins.into_values().next().unwrap();
        plugin.signatures
    };
    let read = policy(&format!(
        "trusted_keys = [{key:?}]\nrequire_signature = true"
    ));
    assert!(read.required);
    assert_eq!(read.trusted[0].id().to_string(), "E7620F1842B4E81F");
    let read = policy(&format!("trusted_keys = [{key:?}]"));
    assert!(!read.required && read.trusted.len() == 1);
    assert_eq!(
        policy("require_signature = false"),
        SignaturePolicy::default()
    );
}
