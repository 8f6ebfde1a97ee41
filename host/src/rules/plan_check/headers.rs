//! Headers and edits of them: none of the host's own names, and nothing that
//! could end a line.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::rules::headers::plugin_may_edit;
use crate::rules::plan::{Edit, SaidEdit};
use crate::rules::plan_check::{Bounds, PlanFault, fault, quote};

pub(super) fn check_edit(said: SaidEdit, bounds: &Bounds<'_>) -> Result<Edit, PlanFault> {
    let name = |name: &str| {
        let header = parse_name(name)?;
        if plugin_may_edit(&header, bounds.credential_headers) {
            return Ok(header);
        }
        Err(fault(format!(
            "the header {} is the host's own",
            quote(name)
        )))
    };
    Ok(match said {
        SaidEdit::Set(header, value) => Edit::Set(name(&header)?, parse_value(&header, &value)?),
        SaidEdit::Remove(header) => Edit::Remove(name(&header)?),
        SaidEdit::AddToList(header, value) => {
            Edit::AddToList(name(&header)?, parse_value(&header, &value)?)
        }
    })
}

pub(super) fn check_headers(
    said: Vec<(String, Vec<u8>)>,
    bounds: &Bounds<'_>,
) -> Result<HeaderMap, PlanFault> {
    let mut map = HeaderMap::new();
    for (name, value) in said {
        let header = parse_name(&name)?;
        if !plugin_may_edit(&header, bounds.credential_headers) {
            return Err(fault(format!(
                "the header {} is the host's own",
                quote(&name)
            )));
        }
        let value = parse_value(&name, &value)?;
        map.append(header, value);
    }
    Ok(map)
}

pub(super) fn parse_name(name: &str) -> Result<HeaderName, PlanFault> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| fault(format!("{} is not a header's name", quote(name))))
}

fn parse_value(name: &str, value: &[u8]) -> Result<HeaderValue, PlanFault> {
    HeaderValue::from_bytes(value).map_err(|_| {
        fault(format!(
            "the value of {} holds a control character",
            quote(name)
        ))
    })
}
