//! The report as JSON.

use serde_json::{Value, json};

use crate::cli::audit::Shown;
use crate::plugins::audit::{Behaviour, Comparison};
use crate::rules::audit::finding::Finding;
use crate::rules::audit::imports;
use crate::rules::manifest::{Manifest, Route, TokenPlace};
use crate::rules::permission::Permission;

pub(super) fn of(shown: &Shown) -> Value {
    let report = &shown.report;
    let facts = &report.facts;
    let import = |name: &String| json!({"name": name, "means": imports::means(name)});
    let producer = |each: &crate::plugins::audit::Producer| json!({"field": each.field, "name": each.name, "version": each.version});
    let dependency = |each: &crate::plugins::audit::Dependency| json!({"name": each.name, "version": each.version, "source": each.source});
    let memory = |each: &crate::plugins::audit::Memory| json!({"initial": each.initial, "maximum": each.maximum});
    let findings = report.findings.sorted();
    json!({
        "file": shown.file,
        "hash": report.hash.to_string(),
        "size": report.size,
        "world": {"fits": report.misfit.is_none(), "reason": report.misfit},
        "imports": facts.imports.iter().map(import).collect::<Vec<_>>(),
        "producers": facts.producers.iter().map(producer).collect::<Vec<_>>(),
        "dependencies": facts.dependencies.iter().map(dependency).collect::<Vec<_>>(),
        "features": facts.features,
        "modules": facts.modules,
        "functions": facts.functions,
        "memories": facts.memories.iter().map(memory).collect::<Vec<_>>(),
        "manifest": report.manifest.as_deref().map(manifest),
        "behaviour": report.behaviour.as_ref().map(behaviour),
        "findings": findings.into_iter().map(finding).collect::<Vec<_>>(),
        "comparison": shown.comparison.as_ref().map(comparison),
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "id": finding.check.id(),
        "severity": finding.check.severity().word(),
        "what": finding.what,
        "means": finding.check.means(),
        "request": finding.request,
        "count": finding.count,
    })
}

fn manifest(manifest: &Manifest) -> Value {
    let words: Vec<Value> = manifest
        .words
        .iter()
        .map(|word| json!({"word": word.name.as_str(), "description": word.description}))
        .collect();
    let permissions: Vec<Value> = Permission::of(manifest)
        .iter()
        .map(|each| json!({"permission": each.to_string(), "means": each.describe()}))
        .collect();
    let limits = manifest.limits;
    json!({
        "name": manifest.name.as_str(),
        "version": manifest.version,
        "capability": manifest.capability.as_str(),
        "summary": manifest.summary,
        "routes": manifest.routes.iter().map(route).collect::<Vec<_>>(),
        "words": words,
        "paths": manifest.paths,
        "limits": {
            "time_ms": limits.time_ms,
            "memory_bytes": limits.memory_bytes,
            "rounds": limits.rounds,
            "calls": limits.calls,
        },
        "permissions": permissions,
    })
}

fn route(route: &Route) -> Value {
    let methods: Vec<&str> = route.methods.iter().map(http::Method::as_str).collect();
    let token = match &route.token {
        TokenPlace::Headers(names) => {
            json!(
                names
                    .iter()
                    .map(http::HeaderName::as_str)
                    .collect::<Vec<_>>()
            )
        }
        TokenPlace::Anywhere => json!("anywhere"),
    };
    json!({
        "prefix": route.prefix,
        "methods": methods,
        "public": route.public,
        "token": token,
        "body": route.inputs.body,
    })
}

fn behaviour(behaviour: &Behaviour) -> Value {
    let measured: serde_json::Map<String, Value> = behaviour
        .measured
        .iter()
        .map(|(function, measured)| {
            let value = json!({
                "calls": measured.calls,
                "most_fuel": measured.most_fuel,
                "most_memory": measured.most_memory,
            });
            (function.word().to_owned(), value)
        })
        .collect();
    json!({
        "asked": behaviour.asked,
        "served": behaviour.served,
        "words": behaviour.words,
        "measured": measured,
    })
}

fn comparison(comparison: &Comparison) -> Value {
    let permissions = comparison.permissions.as_ref().map(|differences| {
        differences
            .iter()
            .map(|each| json!({"change": each.change.word(), "what": each.what, "means": each.means}))
            .collect::<Vec<_>>()
    });
    let examples: Vec<Value> = comparison
        .examples
        .iter()
        .map(|each| json!({"request": each.request, "old": each.old, "new": each.new}))
        .collect();
    json!({
        "against": comparison.old.to_string(),
        "permissions": permissions,
        "asked": comparison.asked,
        "apart": comparison.apart,
        "examples": examples,
    })
}
