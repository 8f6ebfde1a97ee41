//! The conversation with the test kit: a line for a line, until its input ends.

use std::io::{self, BufRead, Write};

use crate::plugins::alone::judge::{Alone, Ended};
use crate::plugins::alone::wire::{Ask, Hear, Say};
use crate::plugins::bindings::exports::jackfield::plugin::types::{Answers, Need};

/// Loads a component and answers the test kit about it. It blocks on its
/// input: whoever calls it does nothing else.
///
/// # Errors
/// When the other side cannot be read or written. Whatever is wrong with the
/// component or with what is asked is said to the other side.
pub async fn answer(bytes: &[u8], from: impl BufRead, to: impl Write) -> io::Result<()> {
    let mut line = Line { from, to };
    let alone = match Alone::load(bytes).await {
        Ok(alone) => alone,
        Err(error) => return line.say(&Say::NoPlugin(error.to_string())),
    };
    line.say(&Say::Ready {
        name: alone.manifest().name.as_str(),
        permissions: alone.permissions(),
        cost: alone.cost(),
    })?;
    let mut next = line.ask()?;
    while let Some(ask) = next.take() {
        let mut came = None;
        let mut script = |need: &Need| {
            line.say(&Say::Need(need))?;
            match line.hear()? {
                Some(Hear::Answers(answers)) => Ok(Some(answers)),
                // A test that failed over a need asks no further; another has.
                Some(Hear::Ask(ask)) => {
                    came = Some(ask);
                    Ok(None::<Answers>)
                }
                None => Ok(None),
            }
        };
        match alone.ask(&ask, &mut script).await {
            Ok(told) => line.say(&Say::Decided(&told))?,
            Err(Ended::Mistake(reason)) => line.say(&Say::Mistake(reason))?,
            Err(Ended::LeftAlone) => {}
            Err(Ended::Line(cause)) => return Err(cause),
        }
        next = match came {
            Some(ask) => Some(ask),
            None => line.ask()?,
        };
    }
    Ok(())
}

struct Line<R, W> {
    from: R,
    to: W,
}

impl<R: BufRead, W: Write> Line<R, W> {
    fn say(&mut self, what: &Say<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.to.write_all(&line)?;
        self.to.flush()
    }

    fn hear(&mut self) -> io::Result<Option<Hear>> {
        let mut line = String::new();
        if self.from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match serde_json::from_str(&line) {
            Ok(heard) => Ok(Some(heard)),
            Err(cause) => {
                let reason = format!(
                    "the kit and the jackfield command are of different versions ({cause}); renew \
                     vendor/ with `jackfield plugin vendor`"
                );
                self.say(&Say::Mistake(reason))?;
                Ok(None)
            }
        }
    }

    /// The next request; an answer that nobody waits for any more is passed over.
    fn ask(&mut self) -> io::Result<Option<Box<Ask>>> {
        loop {
            match self.hear()? {
                Some(Hear::Ask(ask)) => return Ok(Some(ask)),
                Some(Hear::Answers(_)) => {}
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests;
