//! What a box's processes need to know, as variables: a function of the
//! configured templates, the base URL and the names of the box's secrets.

use std::collections::BTreeMap;

use crate::admin::wire::Variable;
use crate::rules::names::SecretName;

/// Fills the templates in. The box's token is not known here: `{token}` stays.
pub(super) fn variables(
    templates: &BTreeMap<String, String>,
    base_url: &str,
    secrets: &[SecretName],
) -> Vec<Variable> {
    let (per_secret, plain): (Vec<_>, Vec<_>) = templates
        .iter()
        .map(|(name, value)| (name, value.replace("{public_url}", base_url)))
        .partition(|(name, _)| name.contains("{NAME}"));
    let plain = plain.into_iter().map(|(name, value)| Variable {
        name: name.clone(),
        value,
    });
    let each = secrets.iter().flat_map(|secret| {
        per_secret.iter().map(|(name, value)| Variable {
            name: name.replace("{NAME}", secret.as_str()),
            value: value.replace("{NAME}", secret.as_str()),
        })
    });
    plain.chain(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_has_its_variables() {
        let templates = [
            ("STUDIO_URL", "{public_url}"),
            ("{NAME}_KEY", "{token}"),
            ("{NAME}_BASE_URL", "{public_url}/out/{NAME}"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let secrets = [
            SecretName::parse("A").unwrap(),
            SecretName::parse("B_2").unwrap(),
        ];
        let lines: Vec<String> = variables(&templates, "http://h:1", &secrets)
            .into_iter()
            .map(|variable| format!("{}={}", variable.name, variable.value))
            .collect();
        assert_eq!(
            lines,
            [
                "STUDIO_URL=http://h:1",
                "A_BASE_URL=http://h:1/out/A",
                "A_KEY={token}",
                "B_2_BASE_URL=http://h:1/out/B_2",
                "B_2_KEY={token}",
            ]
        );
    }
}
