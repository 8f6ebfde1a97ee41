//! Decide requests: one structured Messages call a question.

use serde_json::{Map, Value, json};

use crate::broker::{Asked, Broker, Reply, answer, refuse};
use crate::faults::Fault;
use crate::forward::set;

impl Broker {
    pub async fn decide(&self, asked: &Asked) -> Reply {
        let body: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
        let questions = body["questions"].as_object().cloned().unwrap_or_default();
        let asks = !questions.is_empty() || self.breaks(Fault::TakeNoQuestion);
        if !body["model"].is_string() || body.get("state").is_none() || !asks {
            return refuse(
                422,
                "A request has a model, a state and at least one question.",
            );
        }
        let mut answers = Map::new();
        for (name, question) in &questions {
            match self.question(&body, question).await {
                Some(said) => answers.insert(name.clone(), said),
                None => return refuse(502, "The model did not answer."),
            };
        }
        if self.breaks(Fault::SkipQuestion) {
            let first = answers.keys().next().cloned().unwrap_or_default();
            answers.remove(&first);
        }
        let model = match self.breaks(Fault::RenameModel) {
            true => json!("another-model"),
            false => body["model"].clone(),
        };
        let mut reply = answer(200, &json!({"model": model, "answers": answers}));
        if let Some(payer) = self.payer() {
            set(reply.headers_mut(), "chant-payer", payer);
        }
        reply
    }

    async fn question(&self, body: &Value, question: &Value) -> Option<Value> {
        let options: Vec<String> = match question["type"].as_str() {
            Some("noul") => vec!["true".to_owned(), "false".to_owned()],
            Some("choice") => question["criteria"].as_object()?.keys().cloned().collect(),
            _ => return Some(json!({"type": "unsupported"})),
        };
        let numbers: Map<String, Value> = options
            .iter()
            .map(|option| (option.clone(), json!({"type": "number"})))
            .collect();
        let schema = json!({"type": "object", "properties": {
            "reason": {"type": "string"},
            "choice": {"type": "string", "enum": options},
            "probabilities": {"type": "object", "properties": numbers},
        }});
        let said = match self.breaks(Fault::InventDecisions) {
            true => json!({"choice": options.first(), "probabilities": {}, "reason": "I know."}),
            false => {
                let call = json!({
                    "model": body["model"], "max_tokens": 1024,
                    "messages": [{"role": "user", "content": question["instructions"]}],
                    "output_config": {"format": {"type": "json_schema", "schema": schema}},
                });
                self.ask_model(&call).await?
            }
        };
        let probable = |option: &str| said["probabilities"][option].as_f64().unwrap_or(0.5);
        Some(match question["type"].as_str() {
            Some("noul") => {
                json!({"type": "noul", "noul": probable("true"), "reason": said["reason"]})
            }
            _ => json!({
                "type": "choice", "choice": said["choice"], "reason": said["reason"],
                "probabilities": said["probabilities"],
            }),
        })
    }
}
