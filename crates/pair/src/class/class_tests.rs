use super::*;
use proptest::prelude::*;

fn evidence(persists: f64, far: f64, spins: f64) -> Evidence {
    let profile = Profile { samples: 200, persists, far, spins, ..Profile::default() };
    Evidence { mappings: Ok(None), profile: Ok(profile), stalled: None }
}

fn told(declared: Option<Class>, evidence: &Evidence) -> (Class, ClassSource) {
    let classification = decide(declared, evidence);
    (classification.class, classification.source)
}

#[test]
fn a_declared_class_is_not_doubted() {
    let classification = decide(Some(Class::Compute), &evidence(1.0, 0.0, 0.0));
    assert_eq!(classification, Classification::declared(Class::Compute));
}

#[test]
fn half_of_the_time_in_waiting_is_a_stall() {
    assert_eq!(told(None, &evidence(0.4, 0.4, 0.0)), (Class::Stall, ClassSource::Sampling));
    assert_eq!(told(None, &evidence(0.2, 0.1, 0.0)), (Class::Compute, ClassSource::Sampling));
    assert_eq!(told(None, &evidence(0.9, 0.0, 0.6)), (Class::Unknown, ClassSource::Sampling));
    let close = decide(None, &evidence(0.51, 0.0, 0.0));
    assert!(close.class == Class::Unknown && close.confidence < LEAST_SURE, "{close:?}");
}

#[test]
fn a_mapping_decides_only_where_sampling_cannot() {
    let mapped = || Ok(Some("a pool is mapped".to_owned()));
    let seen = Evidence { mappings: mapped(), ..evidence(0.0, 0.0, 0.0) };
    assert_eq!(told(None, &seen), (Class::Compute, ClassSource::Sampling));
    let refused = Evidence { profile: Err(Unavailable("refused".into())), ..seen.clone() };
    let classification = decide(None, &refused);
    assert_eq!(
        (classification.class, classification.source),
        (Class::Stall, ClassSource::Mappings)
    );
    assert!(
        classification.confidence <= 0.5 && classification.why.contains("refused"),
        "{classification:?}"
    );
    let asleep = Profile { samples: ENOUGH_SAMPLES - 1, persists: 1.0, ..Profile::default() };
    let asleep = Evidence { profile: Ok(asleep), ..seen };
    assert_eq!(told(None, &asleep), (Class::Stall, ClassSource::Mappings));
}

#[test]
fn code_that_cannot_be_read_may_have_waited() {
    let partly = |persists, unread| {
        let profile = Profile { samples: 200, persists, unread, ..Profile::default() };
        Evidence { mappings: Ok(None), profile: Ok(profile), stalled: None }
    };
    let told = |persists, unread| decide(None, &partly(persists, unread));
    let all = told(0.0, 1.0);
    assert_eq!((all.class, all.source), (Class::Unknown, ClassSource::Undetermined));
    assert!(all.why.contains("100% cannot be read: run as root"), "{all:?}");
    assert_eq!(told(0.3, 0.25).class, Class::Unknown);
    assert_eq!(told(0.0, 0.3).class, Class::Compute, "most of it can");
    assert!(told(0.0, 0.45).confidence < told(0.0, 0.3).confidence);
    assert_eq!(told(0.7, 0.3).class, Class::Stall);
    let mapped = Evidence { mappings: Ok(Some("a pool is mapped".into())), ..partly(0.0, 1.0) };
    assert_eq!(decide(None, &mapped).source, ClassSource::Mappings);
}

#[test]
fn addresses_that_cannot_be_told_may_be_far() {
    let partly = |far, untold| {
        let profile = Profile { samples: 200, far, untold, ..Profile::default() };
        Evidence { mappings: Ok(None), profile: Ok(profile), stalled: None }
    };
    let told = |far, untold| decide(None, &partly(far, untold));
    let all = told(0.0, 0.96);
    assert_eq!((all.class, all.source), (Class::Unknown, ClassSource::Undetermined));
    assert!(all.why.contains("96% at addresses that cannot be told"), "{all:?}");
    assert!(!all.why.contains("root"), "it reads no more: {all:?}");
    assert_eq!(told(0.3, 0.25).class, Class::Unknown);
    assert!(told(0.0, 0.45).confidence < told(0.0, 0.1).confidence);
    assert!(
        told(0.0, 0.3).confidence < SUREST_SAMPLING,
        "more may be hidden: {:?}",
        told(0.0, 0.3)
    );
    assert_eq!(told(0.0, 0.4).class, Class::Unknown, "too much may be hidden");
    assert_eq!(told(0.7, 0.3).class, Class::Stall);
    let mapped = Evidence { mappings: Ok(Some("a pool is mapped".into())), ..partly(0.0, 0.96) };
    assert_eq!(decide(None, &mapped).source, ClassSource::Mappings);
}

#[test]
fn a_mapping_decides_if_samples_are_too_close_to_tell() {
    let close =
        Evidence { mappings: Ok(Some("a pool is mapped".into())), ..evidence(0.49, 0.0, 0.0) };
    assert_eq!(told(None, &close), (Class::Stall, ClassSource::Mappings));
}

#[test]
fn without_any_source_nothing_is_said_but_why() {
    let blind = Evidence {
        mappings: Err(Unavailable("no maps".into())),
        profile: Err(Unavailable("no perf".into())),
        stalled: Some(1.0),
    };
    let classification = decide(None, &blind);
    assert_eq!(
        (classification.class, classification.source),
        (Class::Unknown, ClassSource::Undetermined)
    );
    assert!(
        classification.why.contains("no perf") && classification.why.contains("no maps"),
        "{classification:?}"
    );
}

#[test]
fn counted_cycles_have_to_agree() {
    let counted = |waits, stalled| Evidence { stalled: Some(stalled), ..evidence(waits, 0.0, 0.0) };
    assert_eq!(told(None, &counted(0.9, 0.1)).0, Class::Compute, "the code only looks like it");
    assert_eq!(told(None, &counted(0.4, 0.8)).0, Class::Stall);
    assert_eq!(told(None, &counted(0.0, 0.9)).0, Class::Compute, "a division, for instance");
    assert_eq!(told(None, &counted(0.9, 0.4)).0, Class::Stall);
}

proptest! {
    #[test]
    fn more_samples_never_make_it_less_sure(samples in 20_usize..1000, persists in 0.0..=1.0_f64) {
        let sure = |samples| {
            let profile = Profile { samples, persists, ..Profile::default() };
            let evidence = Evidence { mappings: Ok(None), profile: Ok(profile), stalled: None };
            decide(None, &evidence).confidence
        };
        prop_assert!(sure(samples + 1) >= sure(samples));
        prop_assert!((0.0..=SUREST_SAMPLING).contains(&sure(samples)));
    }
}
