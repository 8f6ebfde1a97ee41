//! What an audit finds: a closed list of checks with stable ids, how serious
//! each is, and what it means to whoever reviews the plugin.

use std::collections::BTreeMap;

/// How many different findings of one check are kept; the rest is counted.
const MOST_OF_ONE: usize = 8;

/// The longest text of a finding, in characters.
const MOST_TEXT: usize = 300;

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// To know.
    Note,
    /// To look at before a yes.
    Warning,
    /// A reason for a no.
    Error,
}

impl Severity {
    /// The word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What an audit looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// It fits no world of ours.
    OtherWorld,
    /// It wants something of the host that no plugin may have.
    ForeignImport,
    /// It imports WASI that does nothing.
    InertImport,
    /// What it imports and what its manifest says do not go together.
    ImportNotClaimed,
    /// A memory begins larger than an instance may become.
    MemoryBeyondLimit,
    /// A section that says where it comes from cannot be read.
    UnreadableOrigin,
    /// The engine does not take it.
    DoesNotCompile,
    /// `describe` brought nothing.
    DescribeFails,
    /// `describe` said different things.
    DescribeDiffers,
    /// Its manifest is not accepted.
    ManifestRefused,
    /// A control character in something that it says.
    ControlCharacter,
    /// A word that its manifest does not declare, or that is none.
    UndeclaredWord,
    /// A step reaches beyond what the words of the request reach.
    BeyondWords,
    /// A step is not well formed.
    IllFormed,
    /// A step is more than the host takes.
    TooLarge,
    /// On a public route it asks for what only a box may have.
    PublicNeedsBox,
    /// It needs more, for ever.
    EndlessNeeds,
    /// A call trapped.
    Trap,
    /// A call used up its fuel.
    OutOfFuel,
    /// A call took too long by the clock.
    OutOfTime,
    /// A call wanted more memory than it may have.
    OutOfMemory,
    /// Two fresh instances answered the same request differently.
    NonDeterministic,
    /// An instance answered differently for what it had been asked before.
    Remembers,
    /// It answers where its manifest claims no route.
    AnswersUnclaimed,
    /// No generated request came past its `scopes` under a route.
    NotReached,
    /// No generated request needed a word that its manifest declares.
    WordNotSeen,
    /// A route was asked less than planned.
    CutShort,
}

impl Check {
    /// Every check.
    pub const ALL: [Self; 27] = [
        Self::OtherWorld,
        Self::ForeignImport,
        Self::InertImport,
        Self::ImportNotClaimed,
        Self::MemoryBeyondLimit,
        Self::UnreadableOrigin,
        Self::DoesNotCompile,
        Self::DescribeFails,
        Self::DescribeDiffers,
        Self::ManifestRefused,
        Self::ControlCharacter,
        Self::UndeclaredWord,
        Self::BeyondWords,
        Self::IllFormed,
        Self::TooLarge,
        Self::PublicNeedsBox,
        Self::EndlessNeeds,
        Self::Trap,
        Self::OutOfFuel,
        Self::OutOfTime,
        Self::OutOfMemory,
        Self::NonDeterministic,
        Self::Remembers,
        Self::AnswersUnclaimed,
        Self::NotReached,
        Self::WordNotSeen,
        Self::CutShort,
    ];

    /// The id, which stays the same from version to version.
    #[must_use]
    pub fn id(self) -> &'static str {
        self.told().0
    }

    /// How serious it is.
    #[must_use]
    pub fn severity(self) -> Severity {
        self.told().1
    }

    /// What it means to whoever decides about the plugin.
    #[must_use]
    pub fn means(self) -> &'static str {
        self.told().2
    }

    fn told(self) -> (&'static str, Severity, &'static str) {
        use Severity::{Error, Note, Warning};
        match self {
            Self::OtherWorld => (
                "other-world",
                Error,
                "It is no plugin of this host: the host refuses to load it.",
            ),
            Self::ForeignImport => (
                "foreign-import",
                Error,
                "It asks the host to act for it. A plugin only computes, and the host refuses to load this one.",
            ),
            Self::InertImport => (
                "inert-import",
                Note,
                "Its toolchain imports this. The host links it to a stub that is the same for every call and reaches \
                 nothing.",
            ),
            Self::ImportNotClaimed => (
                "import-not-claimed",
                Note,
                "It imports what its manifest says it does without. The stub gives it nothing, so either the manifest \
                 or the code is not what its author meant.",
            ),
            Self::MemoryBeyondLimit => (
                "memory-beyond-limit",
                Error,
                "No instance of it can be made under the memory that it may have: every request would fail.",
            ),
            Self::UnreadableOrigin => (
                "unreadable-origin",
                Warning,
                "It carries an account of where it comes from that cannot be read. It may hide what it is made of.",
            ),
            Self::DoesNotCompile => (
                "does-not-compile",
                Error,
                "The host's engine refuses it; it can never be loaded.",
            ),
            Self::DescribeFails => (
                "describe-fails",
                Error,
                "It cannot say what it is, so nothing of it can be approved and the host refuses to load it.",
            ),
            Self::DescribeDiffers => (
                "describe-differs",
                Error,
                "What would be approved is not what it says the next time.",
            ),
            Self::ManifestRefused => (
                "manifest-refused",
                Error,
                "The host does not accept its manifest and refuses to load it.",
            ),
            Self::ControlCharacter => (
                "control-character",
                Error,
                "It puts a character into what it says that could end a header's line or steer a terminal: header \
                 injection. The host refuses each such answer.",
            ),
            Self::UndeclaredWord => (
                "undeclared-word",
                Error,
                "It names a scope word that nobody approved. The host refuses each such request.",
            ),
            Self::BeyondWords => (
                "beyond-words",
                Error,
                "It tries to reach what the words of the request do not open. The host refuses each such plan, and no \
                 upstream is touched; an honest plugin never does it.",
            ),
            Self::IllFormed => (
                "ill-formed",
                Error,
                "It says something that is not of the contract. The host refuses it, and the box reads a 502.",
            ),
            Self::TooLarge => (
                "too-large",
                Error,
                "It says more than the host takes. The host refuses it, and the box reads a 502.",
            ),
            Self::PublicNeedsBox => (
                "public-needs-box",
                Error,
                "On a route without a token it asks for what belongs to a box. The host refuses it.",
            ),
            Self::EndlessNeeds => (
                "endless-needs",
                Error,
                "It never decides. The host gives up after the rounds that it may have, each of which may have made \
                 calls on a credential.",
            ),
            Self::Trap => (
                "trap",
                Error,
                "It fails. That request alone is answered with a 502; who can send it can make it fail at will.",
            ),
            Self::OutOfFuel => (
                "out-of-fuel",
                Error,
                "It computes without end, or for far too long. The host stops it at its time limit; until then it \
                 holds one of the threads that plugins take turns at.",
            ),
            Self::OutOfTime => (
                "out-of-time",
                Error,
                "A single step of it works for seconds. The host stops it at its time limit.",
            ),
            Self::OutOfMemory => (
                "out-of-memory",
                Error,
                "It wants more memory than it may have. The host stops it, and that request fails.",
            ),
            Self::NonDeterministic => (
                "non-deterministic",
                Error,
                "The same request is decided differently by two fresh instances: no record, replay or comparison of it \
                 can be relied on.",
            ),
            Self::Remembers => (
                "remembers",
                Error,
                "What an instance was asked before changes what it answers. The host makes a fresh instance for each \
                 request, so nothing crosses from one box to another; but it is no pure function, as the contract asks.",
            ),
            Self::AnswersUnclaimed => (
                "answers-unclaimed",
                Note,
                "It would serve requests under routes that it does not claim. The host never asks it about them; it \
                 would begin to if a later manifest claimed them, and that waits for a yes.",
            ),
            Self::NotReached => (
                "not-reached",
                Note,
                "Of the generated requests it served none here, so the audit has seen little of the code behind it. \
                 Give it requests of the API with --requests.",
            ),
            Self::WordNotSeen => (
                "word-not-seen",
                Note,
                "Of the generated requests none needed this word, so what it is used for has not been seen. Give it \
                 requests of the API with --requests.",
            ),
            Self::CutShort => (
                "cut-short",
                Warning,
                "It was asked less than planned, because it kept being stopped or used up the audit's fuel. What was \
                 not asked has not been judged.",
            ),
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked for.
    pub check: Check,
    /// What was found, in words. It may quote the plugin, escaped.
    pub what: String,
    /// The first request that showed it.
    pub request: Option<String>,
    /// How often it was seen.
    pub count: usize,
}

/// All that was found: each once, and not more of one kind than somebody reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    found: BTreeMap<Check, Vec<Finding>>,
}

impl Findings {
    /// Notes a finding; the same one again is counted.
    pub fn add(&mut self, check: Check, what: impl Into<String>, request: Option<&str>) {
        let what = shown(&what.into());
        let of_this = self.found.entry(check).or_default();
        if let Some(same) = of_this.iter_mut().find(|each| each.what == what) {
            same.count += 1;
            return;
        }
        if of_this.len() == MOST_OF_ONE
            && let Some(last) = of_this.last_mut()
        {
            "and others of this kind".clone_into(&mut last.what);
            last.request = None;
            last.count += 1;
            return;
        }
        of_this.push(Finding {
            check,
            what,
            request: request.map(shown),
            count: 1,
        });
    }

    /// The most serious first; of the same, in the order of the list of checks.
    #[must_use]
    pub fn sorted(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self.found.values().flatten().collect();
        all.sort_by_key(|finding| std::cmp::Reverse(finding.check.severity()));
        all
    }

    /// Whether anything was found at this level.
    #[must_use]
    pub fn any(&self, severity: Severity) -> bool {
        self.found.keys().any(|check| check.severity() == severity)
    }
}

/// A text for people: cut, on one line.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(MOST_TEXT).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    crate::rules::escape::escape_line(&cut)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_check_has_an_id_of_its_own_and_a_meaning() {
        let ids: BTreeSet<&str> = Check::ALL.iter().map(|check| check.id()).collect();
        assert_eq!(ids.len(), Check::ALL.len());
        for check in Check::ALL {
            assert!(check.means().ends_with('.'), "{check:?}");
            assert!(
                check
                    .id()
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '-'),
                "{check:?}"
            );
        }
    }

    #[test]
    fn the_same_is_counted_and_many_are_bounded() {
        let mut findings = Findings::default();
        for _ in 0..3 {
            findings.add(Check::Trap, "route failed", Some("GET /a\n"));
        }
        let sorted = findings.sorted();
        assert_eq!((sorted.len(), sorted[0].count), (1, 3));
        assert_eq!(sorted[0].request.as_deref(), Some("GET /a\\u{a}"));
        for number in 0..1_000 {
            findings.add(Check::IllFormed, format!("sort {number}"), None);
        }
        let kept = findings.sorted();
        assert_eq!(kept.len(), 1 + MOST_OF_ONE);
        let last = kept[MOST_OF_ONE - 1];
        assert_eq!(last.what, "and others of this kind");
        assert_eq!(last.count, 1_000 - MOST_OF_ONE + 1);
    }

    #[test]
    fn errors_stand_first() {
        let mut findings = Findings::default();
        findings.add(Check::InertImport, "wasi:cli", None);
        findings.add(Check::CutShort, "a route", None);
        assert!(!findings.any(Severity::Error));
        findings.add(Check::Trap, "route", None);
        let order: Vec<Check> = findings.sorted().iter().map(|each| each.check).collect();
        assert_eq!(order, [Check::Trap, Check::CutShort, Check::InertImport]);
        assert!(findings.any(Severity::Error));
    }
}
