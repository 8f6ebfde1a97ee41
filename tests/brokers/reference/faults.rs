//! The rules that this broker can be told to break, one a switch.

/// What goes wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Keeps entries that name another broker, or none.
    KeepForeignEntries,
    /// Takes reports with any token.
    KnowEveryToken,
    /// Answers 200 to what is no report.
    TakeMalformedReports,
    /// Echoes another spend than was reported.
    ChangeSpend,
    /// Serves boxes that never reported.
    ServeUnreported,
    /// Wants a token for the hello.
    HelloNeedsToken,
    /// Forwards Messages calls without their query.
    DropQuery,
    /// Forwards another body than it was sent.
    ChangeBody,
    /// Answers Messages calls by itself after the upstream has.
    InventAnswers,
    /// Forwards every path below the Anthropic prefix.
    ForwardEveryPath,
    /// Answers 401 where 403 belongs.
    Answer401,
    /// Grants a box that reports every word there is.
    GrantEverything,
    /// Refuses without saying what is missing.
    RefuseWithoutWords,
    /// Asks an upstream before it refuses.
    TouchUpstreamBeforeRefusing,
    /// Asks an upstream while it refuses, and does not wait for it.
    TouchUpstreamWhileRefusing,
    /// Names another model than was asked.
    RenameModel,
    /// Leaves a question without an answer.
    SkipQuestion,
    /// Asks the model without the credential.
    DecideWithoutCredential,
    /// Decides without asking a model.
    InventDecisions,
    /// Takes a decide request with no question.
    TakeNoQuestion,
    /// Answers 404 to a decide request with an unknown token.
    HideDecide,
    /// Sends the stand-in as it is.
    KeepStandIn,
    /// Lets a header that repeats the value through.
    LeakSecretHeader,
    /// Sends a secret to another host than its own.
    SendElsewhere,
    /// Answers 404 for a secret that it holds no value for.
    UnheldIs404,
    /// Takes any name for a secret's.
    TakeAnyName,
    /// Refuses every batch of feedback.
    RefuseFeedback,
    /// Takes a batch with nothing in it.
    TakeEmptyBatch,
    /// Asks Fountain without the operator's key.
    FountainWithoutKey,
    /// Says another payer in the header than on a report's answer.
    PayerDisagrees,
    /// Says the payer on a report's answer alone.
    PayerOnReportOnly,
    /// Says a payer that there is not.
    PayerNonsense,
    /// Sends the box's token upstream in a header.
    PassToken,
    /// Sends it inside base64.
    PassTokenEncoded,
    /// Sends it percent-encoded in the query.
    PassTokenInQuery,
    /// Shows the credential to the box, percent-encoded.
    LeakCredential,
    /// Serves the notes for any of their words.
    OneWordOpensAll,
    /// Does not look at the token where notes are asked for.
    NotesForStrangers,
    /// Never answers.
    Hang,
    /// Answers more than anybody reads.
    HugeAnswers,
    /// Answers what is no HTTP.
    Garbage,
    /// Says that its answers are compressed.
    Compress,
    /// Prints nothing, and runs on.
    NoLine,
    /// Ends before it has printed its line.
    Crash,
    /// Prints a line that is not what it should be.
    BadLine,
    /// Prints more than its line, before and after.
    Chatter,
    /// Ends with its first request.
    EndEarly,
    /// Serves on when its input is closed.
    IgnoreInput,
    /// Serves on when it is told to terminate, too.
    IgnoreTerm,
}

const ALL: [(&str, Fault); 49] = [
    ("keep-foreign-entries", Fault::KeepForeignEntries),
    ("know-every-token", Fault::KnowEveryToken),
    ("take-malformed-reports", Fault::TakeMalformedReports),
    ("change-spend", Fault::ChangeSpend),
    ("serve-unreported", Fault::ServeUnreported),
    ("hello-needs-token", Fault::HelloNeedsToken),
    ("drop-query", Fault::DropQuery),
    ("change-body", Fault::ChangeBody),
    ("invent-answers", Fault::InventAnswers),
    ("forward-every-path", Fault::ForwardEveryPath),
    ("answer-401", Fault::Answer401),
    ("grant-everything", Fault::GrantEverything),
    ("refuse-without-words", Fault::RefuseWithoutWords),
    (
        "touch-upstream-before-refusing",
        Fault::TouchUpstreamBeforeRefusing,
    ),
    (
        "touch-upstream-while-refusing",
        Fault::TouchUpstreamWhileRefusing,
    ),
    ("rename-model", Fault::RenameModel),
    ("skip-question", Fault::SkipQuestion),
    ("decide-without-credential", Fault::DecideWithoutCredential),
    ("invent-decisions", Fault::InventDecisions),
    ("take-no-question", Fault::TakeNoQuestion),
    ("hide-decide", Fault::HideDecide),
    ("keep-stand-in", Fault::KeepStandIn),
    ("leak-secret-header", Fault::LeakSecretHeader),
    ("send-elsewhere", Fault::SendElsewhere),
    ("unheld-is-404", Fault::UnheldIs404),
    ("take-any-name", Fault::TakeAnyName),
    ("refuse-feedback", Fault::RefuseFeedback),
    ("take-empty-batch", Fault::TakeEmptyBatch),
    ("fountain-without-key", Fault::FountainWithoutKey),
    ("payer-disagrees", Fault::PayerDisagrees),
    ("payer-on-report-only", Fault::PayerOnReportOnly),
    ("payer-nonsense", Fault::PayerNonsense),
    ("pass-token", Fault::PassToken),
    ("pass-token-encoded", Fault::PassTokenEncoded),
    ("pass-token-in-query", Fault::PassTokenInQuery),
    ("leak-credential", Fault::LeakCredential),
    ("one-word-opens-all", Fault::OneWordOpensAll),
    ("notes-for-strangers", Fault::NotesForStrangers),
    ("hang", Fault::Hang),
    ("huge-answers", Fault::HugeAnswers),
    ("garbage", Fault::Garbage),
    ("compress", Fault::Compress),
    ("no-line", Fault::NoLine),
    ("crash", Fault::Crash),
    ("bad-line", Fault::BadLine),
    ("chatter", Fault::Chatter),
    ("end-early", Fault::EndEarly),
    ("ignore-input", Fault::IgnoreInput),
    ("ignore-term", Fault::IgnoreTerm),
];

/// The faults that the arguments name.
pub fn read(arguments: impl Iterator<Item = String>) -> Vec<Fault> {
    arguments
        .map(|argument| {
            let name = argument.trim_start_matches("--");
            let known = ALL.iter().find(|(known, _)| *known == name);
            known
                .unwrap_or_else(|| panic!("no such fault: {argument}"))
                .1
        })
        .collect()
}
