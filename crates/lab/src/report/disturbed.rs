//! The marks of values during which the machine was disturbed.

use crate::kit::Results;

/// The sign of a disturbed value, and its meaning.
pub(super) fn disturbance(is_disturbed: bool) -> (&'static str, &'static str) {
    if is_disturbed { (" !", "; the machine was disturbed") } else { ("", "") }
}

/// One line on the runs that were disturbed, if there were any.
pub fn disturbed_line(results: &Results) -> Option<String> {
    let (disturbed, all) = results.disturbed();
    let host = &results.host;
    let load =
        host.load.map_or(String::new(), |load| format!(" a load of {load:.2} at the start,"));
    let shares = host.conditions.map_or(String::new(), |conditions| {
        let [stolen, others] = [conditions.stolen, conditions.others].map(|share| share * 100.0);
        format!(
            " {others:.0}% of the CPUs' time used by other programs, {stolen:.0}% stolen by the hypervisor;"
        )
    });
    (disturbed > 0).then(|| {
        format!(
            "Disturbed: {disturbed} of {all} values,{load}{shares} \
             marked by ! and hollow. Measure again on an idle machine."
        )
    })
}
