//! Examples for the command line's help that name what the default
//! configuration has.

/// All commands.
pub(crate) const COMMANDS: &str = "\
Examples:
  jackfield serve --demo                          look at a working broker, with stand-in upstreams
  jackfield plugin new weather                    begin a plugin of your own
  jackfield plugin build                          build ./plugins/* into plugins_dir
  jackfield plugin audit weather.wasm             look at a component that nobody trusts yet
  jackfield serve --approve-plugins               serve, and approve what lies there now
  jackfield plugin load notes.wasm                hand a plugin to the running host
  jackfield credential set anthropic --kind api-key < key.txt
  TOKEN=$(jackfield box add alice)
  jackfield secret set OPENAI --box alice --host api.openai.com < openai-key.txt
  jackfield box env alice                         what alice's processes need to know
  jackfield grant issue --box alice --credential octocat    a visitor's turn, for an hour
  jackfield log verify                            hold the decision log to its chain and signatures

Exit codes: 0 done; 1 refused or failed, with the reason on standard error;
2 the arguments make no sense. `plugin audit` and `plugin replay`
have codes of their own.

Values of secrets and credentials come from standard input or --from-file and
never from an argument, which other processes could read.";

/// `credential set`.
pub(crate) const CREDENTIAL_SET: &str = "\
Examples:
  jackfield credential set anthropic --kind api-key < key.txt
  jackfield credential set anthropic --kind setup-token --payer owner \\
    --principal github:octocat --box alice --from-file token.txt

A box's own credential is spent before the upstream's general one. A second one
for the same purpose needs a --name. A visitor's needs its --principal, and is
spent only under a grant of that person (`jackfield grant issue`). Set again with
another value, what is open finishes; once it is removed, what is open is cut.";
