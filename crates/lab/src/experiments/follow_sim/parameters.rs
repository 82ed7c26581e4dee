//! Sets of parameters by their origin. P3's figures are held out from all but [`Fitted`].
//!
//! [`Fitted`]: ParameterSet::Fitted

use super::model::{Model, Steering, WakePolicy};
use crate::kit::{Choice, Params};

/// The origin of a model's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterSet {
    /// [`Model::default`]: found by a search for P3's figures.
    Fitted,
    /// Published figures of P3's hardware.
    Hardware,
    /// A trace that a guest recorded under the existing policy.
    Guest,
}

impl Choice for ParameterSet {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Fitted, "fitted"), (Self::Hardware, "hardware"), (Self::Guest, "guest")];
}

impl ParameterSet {
    /// The model with these parameters, on the machine that they come from.
    pub fn model(self) -> Model {
        match self {
            Self::Fitted => Model::default(),
            Self::Hardware => hardware(),
            Self::Guest => guest(),
        }
    }
}

/// P3's machine at the full rate of its network.
///
/// - Rate and gap: full frames of 10 Gb/s Ethernet take 1,538 bytes of the wire each, 1.23 us
///   (IEEE 802.3): 812,744 per second, evenly of 512 flows.
/// - Burst: the 64 KiB that a Linux sender passes to its card at once (`GSO_MAX_SIZE`), as 45
///   frames of 1,448 bytes.
/// - Interrupt and service together: P3's CPU use under the existing policy, 25.3% of 12 CPUs, for
///   each of these frames. Its even split is assumed.
/// - No other load, as P3 names none, and no lag, as the kernel's table is written by the call.
/// - Slice, balancing, and the time on a cold CPU are those of [`Model::default`].
///
/// The card's merging of frames (GRO) is left out.
fn hardware() -> Model {
    Model {
        rate: 1_587,
        burst: 45,
        gap_ns: 1_230,
        interrupt_ns: 1_870,
        service_ns: 1_870,
        load: 0,
        steering: Steering::Rfs { lag_ns: 0 },
        ..Model::default()
    }
}

/// The emulated guest of `tools/test-scx`: 4 CPUs and 128 TCP flows from outside, Linux 7.3.4, RFS
/// on, in a trace of 9,230 wake-ups in 4.75 s under the existing policy.
///
/// - Rate, burst and gap: wake-ups of each task. Gaps above 20 ms, a sixth of all, separate bursts;
///   the mean of the rest is the gap.
/// - Interrupt and service: the CPUs were busy at 89% of the wake-ups, and 34% of the guest's busy
///   time was that of software interrupts.
/// - No other load and no lag, as for `hardware`. Slice: that of the guest's scheduler.
fn guest() -> Model {
    Model {
        cpus: 4,
        flows: 128,
        rate: 14,
        burst: 6,
        gap_ns: 3_700_000,
        interrupt_ns: 630_000,
        service_ns: 1_200_000,
        load: 0,
        slice_ns: 5_000_000,
        steering: Steering::Rfs { lag_ns: 0 },
        ..Model::default()
    }
}

/// Steering with a lag in microseconds.
pub(super) fn rfs(lag_us: u64) -> Steering {
    Steering::Rfs { lag_ns: lag_us.saturating_mul(1000) }
}

/// The parameters of a point of this model, of which most are those of its set.
pub(super) fn params(set: ParameterSet, model: &Model) -> Params {
    let base = set.model();
    let params = Params::new()
        .with_some("set", (set != ParameterSet::Fitted).then(|| set.name()))
        .with("cpus", u64::from(model.cpus))
        .with("flows", u64::from(model.flows))
        .with("rate", model.rate)
        .with_some("burst", (model.burst != base.burst).then_some(u64::from(model.burst)))
        .with_some("load", (model.load != base.load).then_some(model.load));
    match model.steering {
        Steering::Rfs { lag_ns } => params.with("lag", lag_ns / 1000),
        Steering::Hash => params.with("steering", "hash"),
    }
}

/// Builds the model of a point. `burst`, `load` and `seed` are optional and default to those of its
/// set.
pub(super) fn from_params(params: &Params, policy: WakePolicy) -> Option<Model> {
    let set = params.get("set").map_or(Some(ParameterSet::Fitted), |_| params.choice("set"))?;
    let base = set.model();
    let steering = match params.get("steering") {
        None => rfs(params.number("lag")?),
        Some(_) => {
            params.text("steering").filter(|name| *name == "hash").map(|_| Steering::Hash)?
        }
    };
    let optional = |key, own| params.get(key).map_or(Some(own), |_| params.number(key));
    Some(Model {
        cpus: params.number("cpus")?.try_into().ok()?,
        flows: params.number("flows")?.try_into().ok()?,
        rate: params.number("rate")?,
        burst: optional("burst", base.burst.into())?.try_into().ok()?,
        load: optional("load", base.load)?,
        seed: optional("seed", base.seed)?,
        steering,
        policy,
        ..base
    })
}
