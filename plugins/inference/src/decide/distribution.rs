//! Probabilities over a question's options: read from what a model says, made
//! to sum to 1.

use jackfield_sdk::json::quoted;
use serde_json::{Map, Value};

use crate::decide::failure::Failure;

/// Probabilities in the order of the options. They sum to 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Distribution(Vec<f64>);

impl Distribution {
    /// Reads a probability for each label. They are shares: what they sum to
    /// becomes 1. Where all are 0, the picked label is the whole answer.
    ///
    /// # Errors
    /// When one is missing, negative or no number, or a label is none that was
    /// offered.
    pub(crate) fn read(
        said: &Map<String, Value>,
        labels: &[String],
        picked: usize,
    ) -> Result<Self, Failure> {
        if let Some(other) = said.keys().find(|name| !labels.contains(name)) {
            return Err(Failure::Nonsense(format!(
                "it gives a probability to {}, which nobody offered",
                quoted(other)
            )));
        }
        let shares = labels
            .iter()
            .map(|label| {
                said.get(label)
                    .and_then(Value::as_f64)
                    .filter(|share| share.is_finite() && *share >= 0.0)
                    .ok_or_else(|| {
                        Failure::Nonsense(format!(
                            "it gives no probability to {}, or one that is none",
                            quoted(label)
                        ))
                    })
            })
            .collect::<Result<Vec<f64>, _>>()?;
        let total: f64 = shares.iter().sum();
        if !total.is_finite() {
            return Err(Failure::Nonsense(
                "its probabilities are beyond all numbers".to_owned(),
            ));
        }
        if total == 0.0 {
            let certain = (0..labels.len()).map(|at| f64::from(u8::from(at == picked)));
            return Ok(Self(certain.collect()));
        }
        Ok(Self(
            shares.into_iter().map(|share| share / total).collect(),
        ))
    }

    /// The probability of the option at this place.
    pub(crate) fn at(&self, place: usize) -> f64 {
        self.0.get(place).copied().unwrap_or(0.0)
    }

    /// The largest probability.
    pub(crate) fn peak(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// The expected place, counted from 0.
    pub(crate) fn expected(&self) -> f64 {
        let places = (0_u32..).map(f64::from);
        let weighed = self
            .0
            .iter()
            .zip(places)
            .map(|(share, place)| share * place);
        weighed.sum()
    }

    /// By the options' own texts.
    pub(crate) fn by(&self, texts: Vec<String>) -> Value {
        texts
            .into_iter()
            .zip(&self.0)
            .map(|(text, share)| (text, Value::from(*share)))
            .collect::<Map<String, Value>>()
            .into()
    }
}
