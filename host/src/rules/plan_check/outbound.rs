//! What may be sent: a target that the permitted words reach, a path that was
//! received or stands in the manifest, a credential that was on offer for it.

use bytes::Bytes;
use http::Method;
use http::header::AUTHORIZATION;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::rules::headers::plugin_may_edit;
use crate::rules::names::{SecretName, UpstreamName};
use crate::rules::paths;
use crate::rules::plan::{
    Call, CredentialKey, Edit, Forward, Outbound, Placement, SaidCall, SaidEdit, SaidForward,
    SaidPath, SaidPlacement, SaidQuery, SaidTarget, Target,
};
use crate::rules::plan_check::headers::{check_edit, check_headers, parse_name};
use crate::rules::plan_check::{
    Bounds, PlanFault, beyond, check_refusal, check_text, fault, quote, status_in,
};

pub(super) fn check_forward(said: SaidForward, bounds: &Bounds<'_>) -> Result<Forward, PlanFault> {
    let outbound = check_outbound(
        Wanted {
            to: &said.to,
            method: bounds.method.clone(),
            path: &said.path,
            query: said.query,
            credential: said.credential.as_deref(),
            placement: said.placement,
        },
        bounds,
    )?;
    let edits = |edits: Vec<SaidEdit>| -> Result<Vec<Edit>, PlanFault> {
        edits
            .into_iter()
            .map(|edit| check_edit(edit, bounds))
            .collect()
    };
    let substitutions = said
        .substitutions
        .iter()
        .map(|(status, refusal)| {
            Ok((
                status_in(*status, 100, "a status to replace")?,
                check_refusal(refusal)?,
            ))
        })
        .collect::<Result<_, PlanFault>>()?;
    Ok(Forward {
        outbound,
        request_edits: edits(said.request_headers)?,
        response_edits: edits(said.response_headers)?,
        substitutions,
    })
}

pub(super) fn check_call(said: SaidCall, bounds: &Bounds<'_>) -> Result<Call, PlanFault> {
    let method = Method::from_bytes(said.method.as_bytes())
        .ok()
        .filter(|method| {
            *method != Method::CONNECT && said.method.bytes().all(|b| b.is_ascii_uppercase())
        })
        .ok_or_else(|| {
            fault(format!(
                "{} is not a method it may call",
                quote(&said.method)
            ))
        })?;
    let outbound = check_outbound(
        Wanted {
            to: &said.to,
            method,
            path: &said.path,
            query: said.query,
            credential: said.credential.as_deref(),
            placement: said.placement,
        },
        bounds,
    )?;
    if matches!(outbound.credential, Some((_, Placement::StandIn))) {
        return Err(fault(
            "a call cannot place a credential where the box's token stands: it has no such place",
        ));
    }
    let headers = check_headers(said.headers, bounds)?;
    Ok(Call {
        outbound,
        headers,
        body: Bytes::from(said.body),
    })
}

struct Wanted<'a> {
    to: &'a SaidTarget,
    method: Method,
    path: &'a SaidPath,
    query: SaidQuery,
    credential: Option<&'a str>,
    placement: SaidPlacement,
}

fn check_outbound(wanted: Wanted<'_>, bounds: &Bounds<'_>) -> Result<Outbound, PlanFault> {
    if bounds.words.is_empty() {
        return Err(beyond(
            "it sends a request on for which it asked no scope word; such a request can only be answered",
        ));
    }
    let target = match wanted.to {
        SaidTarget::Upstream(name) => UpstreamName::parse(name).ok().map(Target::Upstream),
        SaidTarget::Secret(name) => SecretName::parse(name).ok().map(Target::Secret),
    };
    let out_of_reach = || {
        let shown = match wanted.to {
            SaidTarget::Upstream(name) => format!("the upstream {}", quote(name)),
            SaidTarget::Secret(name) => format!("the secret {}", quote(name)),
        };
        beyond(format!("none of the permitted words reaches {shown}"))
    };
    let target = target
        .filter(|target| bounds.reachable.contains(target))
        .ok_or_else(out_of_reach)?;
    let path = match wanted.path {
        SaidPath::Received(segments) => {
            paths::skip_segments(bounds.tail, *segments).ok_or_else(|| {
                fault(format!(
                    "the received path has fewer than {segments} segments to leave out"
                ))
            })?
        }
        SaidPath::Literal(literal) => bounds
            .manifest
            .paths
            .iter()
            .find(|path| *path == literal)
            .ok_or_else(|| {
                beyond(format!(
                    "the path {} is not in its manifest",
                    quote(literal)
                ))
            })?,
    };
    let path = if path.is_empty() { "/" } else { path };
    let query = match wanted.query {
        SaidQuery::Received => bounds.query.map(str::to_owned),
        SaidQuery::None => None,
    };
    let credential = match wanted.credential {
        None => None,
        Some(name) => Some((
            check_offer(name, &target, bounds)?,
            check_placement(wanted.placement)?,
        )),
    };
    Ok(Outbound {
        target,
        method: wanted.method,
        path: path.to_owned(),
        query,
        credential,
    })
}

fn check_offer(
    name: &str,
    target: &Target,
    bounds: &Bounds<'_>,
) -> Result<CredentialKey, PlanFault> {
    let offer = bounds
        .offers
        .iter()
        .find(|offer| offer.name == name)
        .ok_or_else(|| beyond(format!("the credential {} was not on offer", quote(name))))?;
    if offer.target != *target {
        return Err(beyond(format!(
            "the credential {} is for another target",
            quote(name)
        )));
    }
    Ok(offer.key.clone())
}

fn check_placement(said: SaidPlacement) -> Result<Placement, PlanFault> {
    match said {
        SaidPlacement::Bearer => Ok(Placement::Bearer),
        SaidPlacement::StandIn => Ok(Placement::StandIn),
        SaidPlacement::Query(name) => {
            check_text("the name of a query parameter", &name)?;
            if name.is_empty() || name.len() > 128 {
                return Err(fault(
                    "the name of a query parameter must have 1 to 128 bytes",
                ));
            }
            Ok(Placement::Query(
                utf8_percent_encode(&name, NON_ALPHANUMERIC).to_string(),
            ))
        }
        SaidPlacement::Header { name, template } => {
            let header = parse_name(&name)?;
            if header != AUTHORIZATION && !plugin_may_edit(&header, &[]) {
                return Err(fault(format!(
                    "the header {} cannot carry a credential",
                    quote(&name)
                )));
            }
            if template.len() > 256 || !template.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
            {
                return Err(fault(format!(
                    "the template {} is not printable ASCII",
                    quote(&template)
                )));
            }
            match template.split_once("{}") {
                Some((before, after)) if !after.contains("{}") => Ok(Placement::Header {
                    name: header,
                    before: before.to_owned(),
                    after: after.to_owned(),
                }),
                _ => Err(fault(format!(
                    "the template {} must hold {{}} once",
                    quote(&template)
                ))),
            }
        }
    }
}
