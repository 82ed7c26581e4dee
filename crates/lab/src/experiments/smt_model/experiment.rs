//! The experiment: every setting with every pair of tasks.

use std::time::Instant;

use super::{Demand, predict, tasks};
use crate::{
    experiments::smt::{CPU_TIME, IO_THROUGHPUT, Setting},
    kit::{
        Case, Effort, Experiment, Failure, List, Options, Params, Planned, Reading, Rounds, Sample,
        Unit,
    },
};

/// P4's settings, predicted.
pub struct SmtModel;

impl Experiment for SmtModel {
    fn name(&self) -> &'static str {
        "smt-model"
    }

    fn about(&self) -> &'static str {
        "a model of P4's tasks on P4's machine, for hosts without SMT: what pairing stalls with computation is predicted to gain"
    }

    fn methods(&self) -> Vec<&'static str> {
        Setting::ALL.map(Setting::name).into()
    }

    fn takes(&self, _: List) -> bool {
        false
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let mut plan = Vec::new();
        for (io, _) in tasks::io() {
            for (cpu, _) in tasks::cpu() {
                for method in self.methods().into_iter().filter(|method| options.wants(method)) {
                    let params = Params::new().with("io", io).with("cpu", cpu);
                    let case =
                        Case { experiment: "smt-model".into(), method: method.into(), params };
                    plan.push(Planned { case, rounds: Ok(Rounds::Fixed(1)) });
                }
            }
        }
        plan
    }

    /// The same each time, on any machine.
    fn sample(&self, case: &Case, _: Effort) -> Result<Sample, Failure> {
        let demand = |tasks: &[(&str, Demand)], key| {
            let name = case.params.text(key)?;
            tasks.iter().find(|(task, _)| *task == name).map(|(_, demand)| *demand)
        };
        let start = Instant::now();
        let (io, cpu) = (demand(&tasks::io(), "io"), demand(&tasks::cpu(), "cpu"));
        let (Some(setting), Some(io), Some(cpu)) = (Setting::from_name(&case.method), io, cpu)
        else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let found = predict(setting, io, cpu);
        let readings = vec![
            Reading::stat(Unit::PerSecond, IO_THROUGHPUT, found.io_rate * 1e9),
            Reading::stat(Unit::Nanoseconds, CPU_TIME, found.cpu_time),
        ];
        Ok(Sample { rounds: 1, elapsed: start.elapsed(), readings })
    }
}
