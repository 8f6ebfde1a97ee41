//! The kinds of things that Fountain gives ids to, and which names speak of
//! them. Names are compared as the most lenient server would: without case,
//! separators, brackets or digits.

/// The kinds, as the operator and the contract write them, with what one of a
/// kind is called.
const KINDS: [(&str, &str); 7] = [
    (AGENTS, "agent"),
    ("channels", "channel"),
    (CONVERSATIONS, "conversation"),
    ("credentials", "credential"),
    ("environments", "environment"),
    (SANDBOXES, "sandbox"),
    (VAULTS, "vault"),
];

/// What may follow a kind in a name, the longest first.
const ID_WORDS: [&str; 4] = ["uuids", "uuid", "ids", "id"];

/// Kinds that a box can bring something new into. Of the others the operator
/// makes what there is.
const CREATED: [&str; 4] = ["channels", CONVERSATIONS, "credentials", SANDBOXES];

pub(crate) const AGENTS: &str = "agents";
pub(crate) const CONVERSATIONS: &str = "conversations";
pub(crate) const SANDBOXES: &str = "sandboxes";
pub(crate) const VAULTS: &str = "vaults";

/// All of them.
pub(crate) const ALL: [&str; 7] = [
    AGENTS,
    "channels",
    CONVERSATIONS,
    "credentials",
    "environments",
    SANDBOXES,
    VAULTS,
];

/// The kind that a parameter's or member's name ends in, with or without a word
/// for its id: `agent_id`, `parentSandbox`, `vault_ids[0]`, `filter[agents]`.
pub(crate) fn named(name: &str) -> Option<&'static str> {
    let folded = folded(name);
    let bare = ID_WORDS.iter().find_map(|word| folded.strip_suffix(word));
    let texts = [Some(folded.as_str()), bare];
    let found = KINDS.iter().find(|(many, one)| {
        let mut texts = texts.into_iter().flatten();
        texts.any(|text| text.ends_with(many) || text.ends_with(one))
    });
    found.map(|(kind, _)| *kind)
}

/// The kind that a parameter's name speaks of, also with an operator behind it:
/// `agent_id[in]`, `sandbox_id__eq`, `filter[agent_id][eq]`.
pub(crate) fn named_within(name: &str) -> Option<&'static str> {
    let words = name.match_indices(['[', ']', '_', '.', '$']);
    let mut before = words.filter_map(|(at, _)| name.get(..at));
    named(name).or_else(|| {
        before.find_map(|text| {
            let says_id = ID_WORDS.iter().any(|word| folded(text).ends_with(word));
            named(text).filter(|_| says_id)
        })
    })
}

/// Whether a box can bring something new into a kind.
pub(crate) fn is_created(kind: &str) -> bool {
    CREATED.contains(&kind)
}

/// The kind that a segment of a path is the name of.
pub(crate) fn segment(text: &str) -> Option<&'static str> {
    let folded = folded(text);
    let found = KINDS
        .iter()
        .find(|(many, one)| folded == *many || folded == *one);
    found.map(|(kind, _)| *kind)
}

/// A name without what servers differ about.
pub(crate) fn folded(name: &str) -> String {
    // First up and then down: some letters have a plain one only in capitals.
    let letters = name.chars().flat_map(char::to_uppercase);
    letters
        .flat_map(char::to_lowercase)
        .filter(char::is_ascii_lowercase)
        .collect()
}
