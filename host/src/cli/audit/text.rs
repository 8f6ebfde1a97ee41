//! The report for people. What came from the component has been cut where it
//! was taken, and is escaped where it is printed.

use crate::cli::audit::Shown;
use crate::plugins::audit::{Behaviour, Comparison, Report};
use crate::rules::audit::finding::Severity;
use crate::rules::audit::imports;
use crate::rules::manifest::Manifest;
use crate::rules::permission::Permission;

/// How many of a long list are shown; `--json` has them all.
const MOST: usize = 12;

pub(super) fn of(shown: &Shown) -> String {
    let report = &shown.report;
    let mut lines = vec![
        line("file", &shown.file),
        line("hash", &format!("sha256 {}", report.hash)),
        line("size", &format!("{} bytes", report.size)),
    ];
    bytes(report, &mut lines);
    match &report.manifest {
        Some(manifest) => claims(manifest, &mut lines),
        None => lines.push(line("claims", "nothing that the host would accept")),
    }
    match &report.behaviour {
        Some(behaviour) => did(behaviour, &mut lines),
        None => lines.push(line("run", "not: see what was found")),
    }
    lines.push(String::new());
    found(report, &mut lines);
    if let Some(comparison) = &shown.comparison {
        lines.push(String::new());
        compared(comparison, &mut lines);
    }
    lines.join("\n")
}

fn line(what: &str, text: &str) -> String {
    // A line of its own, whatever stands in the text.
    format!("{what:<10}  {}", crate::rules::escape::escape_line(text))
}

fn bytes(report: &Report, lines: &mut Vec<String>) {
    let facts = &report.facts;
    let world = match &report.misfit {
        None => "capability of jackfield:plugin@0.1.0".to_owned(),
        Some(reason) => format!("none: {reason}"),
    };
    lines.push(line("world", &world));
    if facts.imports.is_empty() {
        lines.push(line("imports", "none: it can only compute"));
    }
    let import = |name: &String| format!("{name}: to {}", imports::means(name));
    list("imports", facts.imports.iter().map(import), lines);
    let producer = |each: &crate::plugins::audit::Producer| {
        format!("{} {} {}", each.field, each.name, each.version)
    };
    list("made with", facts.producers.iter().map(producer), lines);
    let dependency = |each: &crate::plugins::audit::Dependency| {
        format!("{} {} {}", each.name, each.version, each.source)
    };
    if facts.dependencies.is_empty() {
        lines.push(line("made of", "it does not say"));
    }
    list("made of", facts.dependencies.iter().map(dependency), lines);
    let code = format!("{} functions in {} modules", facts.functions, facts.modules);
    let features: Vec<&str> = facts.features.iter().map(String::as_str).collect();
    let features = match features.as_slice() {
        [] => "no feature beyond the first version".to_owned(),
        features => features.join(", "),
    };
    lines.push(line("code", &format!("{code}; {features}")));
    let memory = |each: &crate::plugins::audit::Memory| {
        let most = each
            .maximum
            .map_or("as much as it may have".to_owned(), |most| most.to_string());
        format!("begins with {} bytes, grows to {most}", each.initial)
    };
    list("memory", facts.memories.iter().map(memory), lines);
}

fn claims(manifest: &Manifest, lines: &mut Vec<String>) {
    let named = format!(
        "{} {}, capability {}: {}",
        manifest.name, manifest.version, manifest.capability, manifest.summary
    );
    lines.push(line("claims", &named));
    let permission = |each: &Permission| format!("{each}: {}", each.describe());
    // What somebody says yes to is never cut short.
    let permissions = Permission::of(manifest);
    lines.extend(permissions.iter().map(|each| line("", &permission(each))));
}

fn did(behaviour: &Behaviour, lines: &mut Vec<String>) {
    let words: Vec<&str> = behaviour.words.iter().map(String::as_str).collect();
    let asked = format!(
        "asked about {} requests, it serves {}; words needed: {}",
        behaviour.asked,
        behaviour.served,
        if words.is_empty() {
            "none".to_owned()
        } else {
            words.join(", ")
        }
    );
    lines.push(line("run", &asked));
    lines.extend(behaviour.measured.iter().map(|(function, measured)| {
        let text = format!(
            "{:<11}  {} calls, at most {} fuel and {} bytes of memory",
            function.word(),
            measured.calls,
            measured.most_fuel,
            measured.most_memory
        );
        line("", &text)
    }));
}

fn found(report: &Report, lines: &mut Vec<String>) {
    let findings = report.findings.sorted();
    for finding in &findings {
        let times = match finding.count {
            1 => String::new(),
            count => format!(" ({count} times)"),
        };
        let head = format!("[{}] {}{times}", finding.check.id(), finding.what);
        lines.push(line(finding.check.severity().word(), &head));
        if let Some(request) = &finding.request {
            lines.push(line("", &format!("on {request}")));
        }
        lines.push(line("", finding.check.means()));
    }
    let count = |severity: Severity| {
        let of_this = findings
            .iter()
            .filter(|each| each.check.severity() == severity);
        of_this.count()
    };
    lines.push(format!(
        "{} errors, {} warnings, {} notes",
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Note)
    ));
}

fn compared(comparison: &Comparison, lines: &mut Vec<String>) {
    lines.push(line("against", &format!("sha256 {}", comparison.old)));
    match comparison.permissions.as_deref() {
        None => lines.push(line(
            "",
            "one of the two has no manifest: nothing to compare",
        )),
        Some([]) => lines.push(line("", "it may do the same")),
        Some(differences) => lines.extend(differences.iter().map(|each| {
            line(
                each.change.word(),
                &format!("{}: {}", each.what, each.means),
            )
        })),
    }
    let apart = match comparison.apart {
        0 => "nothing differs".to_owned(),
        apart => format!("{apart} decisions differ"),
    };
    lines.push(line(
        "behaviour",
        &format!("over {} requests, {apart}", comparison.asked),
    ));
    for example in &comparison.examples {
        lines.push(line("on", &example.request));
        lines.push(line("  old", &example.old));
        lines.push(line("  new", &example.new));
    }
}

fn list(what: &str, items: impl ExactSizeIterator<Item = String>, lines: &mut Vec<String>) {
    let more = items.len().saturating_sub(MOST);
    for (number, item) in items.take(MOST).enumerate() {
        lines.push(line(if number == 0 { what } else { "" }, &item));
    }
    if more > 0 {
        lines.push(line("", &format!("and {more} more: --json has them")));
    }
}
