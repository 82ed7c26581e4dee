//! The request to a sample's child, which answers every valid request and refuses any other.

use daiko_lab::{
    Failure, experiments,
    kit::{Case, Sample},
    runner::child,
};
use serde::Deserialize;
use serde_json::Value;

/// The input is the request as JSON. Requests for existing experiments would be carried out, so
/// they are skipped.
pub(super) fn fuzz(data: &[u8]) {
    let request: Option<Value> = serde_json::from_slice(data).ok();
    let case = request.as_ref().and_then(|request| Case::deserialize(request.get("case")?).ok());
    if case.as_ref().is_some_and(|case| experiments::find(&case.experiment).is_some()) {
        return;
    }
    let mut output = Vec::new();
    if child::serve(data, &mut output).is_err() {
        assert!(output.is_empty());
        return;
    }
    let answer: Result<Sample, Failure> = serde_json::from_slice(&output).expect("an answer");
    assert!(matches!(answer, Err(Failure::Broken(_))), "{answer:?}");
    if let Some(case) = case {
        let text = serde_json::to_value(&case).expect("JSON");
        assert_eq!(Case::deserialize(text).expect("the same JSON"), case);
    }
}
