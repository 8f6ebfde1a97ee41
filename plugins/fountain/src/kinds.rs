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

/// Operators that ask for what they name and nothing else.
const OPERATORS: [&str; 13] = [
    "all", "and", "any", "anyof", "contains", "eq", "equal", "equals", "in", "includes", "is",
    "oneof", "or",
];

/// Operators that ask for what they do not name.
const OTHERS: [&str; 17] = [
    "between", "exists", "gt", "gte", "ilike", "like", "lt", "lte", "match", "ne", "neq", "nin",
    "noneof", "nor", "not", "notin", "regex",
];

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
    let bare = without_id_word(&folded);
    let texts = [Some(folded.as_str()), bare];
    let found = KINDS.iter().find(|(many, one)| {
        let mut texts = texts.into_iter().flatten();
        texts.any(|text| text.ends_with(many) || text.ends_with(one))
    });
    found.map(|(kind, _)| *kind)
}

/// What a parameter's name speaks of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// Its value is an id of the kind.
    Id(&'static str),
    /// A member of one of the kind, or one that is named by its id.
    Member(&'static str),
    /// Others of the kind than those it names.
    Others(&'static str),
}

/// What a parameter's name speaks of, also with an operator or more brackets
/// behind the kind: `agent_id[in]`, `sandbox_id__eq`, `filter[agent_id][ne]`,
/// `agents[ID]`.
pub(crate) fn parameter(name: &str) -> Option<Parameter> {
    if let Some(kind) = named(name) {
        return Some(Parameter::Id(kind));
    }
    let mut words = name.rmatch_indices(['[', ']', '_', '.', '$']);
    words.find_map(|(at, mark)| {
        let (before, behind) = name.split_at_checked(at)?;
        let kind = named(before)?;
        if is_operator(behind) {
            Some(Parameter::Id(kind))
        } else if says_id(before) {
            Some(Parameter::Others(kind))
        } else {
            (mark == "[").then_some(Parameter::Member(kind))
        }
    })
}

/// Whether a name ends in a word for an id.
pub(crate) fn says_id(name: &str) -> bool {
    without_id_word(&folded(name)).is_some()
}

/// Whether a name is an operator's that asks for what it names.
pub(crate) fn is_operator(name: &str) -> bool {
    OPERATORS.contains(&folded(name).as_str())
}

/// Whether a name is an operator's that asks for others than what it names, or
/// that nobody here knows.
pub(crate) fn asks_for_others(name: &str) -> bool {
    name.starts_with('$') && !is_operator(name) || OTHERS.contains(&folded(name).as_str())
}

fn without_id_word(folded: &str) -> Option<&str> {
    ID_WORDS.iter().find_map(|word| folded.strip_suffix(word))
}

/// Whether a box can bring something new into a kind.
pub(crate) fn is_created(kind: &str) -> bool {
    CREATED.contains(&kind)
}

/// Whether a segment of a path is a kind's name, and no more.
pub(crate) fn is_segment(text: &str, kind: &str) -> bool {
    folded(text) == kind || is_one(text, kind)
}

/// Whether a name ends in what several of a kind are called.
pub(crate) fn is_many(name: &str, kind: &str) -> bool {
    folded(name).ends_with(kind)
}

/// Whether a name is what one of a kind is called, and no more.
pub(crate) fn is_one(name: &str, kind: &str) -> bool {
    let folded = folded(name);
    KINDS
        .iter()
        .any(|(many, one)| *many == kind && folded == *one)
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
