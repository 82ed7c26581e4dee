use super::*;
use proptest::prelude::*;

fn seen(profile: Profile) -> Evidence {
    let counters = Err(Unavailable("no such counter".into()));
    Evidence { mappings: Ok(None), profile: Ok(profile), counters }
}

fn evidence(persists: f64, far: f64, spins: f64) -> Evidence {
    seen(Profile { samples: 200, persists, far, spins, ..Profile::default() })
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
        seen(profile)
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
        seen(profile)
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
        counters: Err(Unavailable("no counter".into())),
    };
    let classification = decide(None, &blind);
    assert_eq!(
        (classification.class, classification.source),
        (Class::Unknown, ClassSource::Undetermined)
    );
    assert!(
        ["no perf", "no counter", "no maps"].iter().all(|why| classification.why.contains(why)),
        "{classification:?}"
    );
}

/// Bounds by counted stalls.
fn bounds(at_least: f64, at_most: f64) -> WaitBounds {
    WaitBounds { at_least, at_most, sees_flushes: true, surest: 0.9 }
}

fn counted(evidence: Evidence, bounds: WaitBounds) -> Evidence {
    Evidence { counters: Ok(bounds), ..evidence }
}

#[test]
fn counters_and_samples_that_agree_are_as_sure_as_the_surer_of_them() {
    let both = decide(None, &counted(evidence(0.9, 0.0, 0.0), bounds(0.6, 0.9)));
    assert_eq!((both.class, both.source), (Class::Stall, ClassSource::Counters));
    assert_eq!(both.confidence, SUREST_SAMPLING);
    assert!(both.why.contains("60% to 90%") && both.why.contains("90% wait"), "{both:?}");
    let both = decide(None, &counted(evidence(0.0, 0.0, 0.0), bounds(0.0, 0.1)));
    assert_eq!((both.class, both.source), (Class::Compute, ClassSource::Counters));
}

#[test]
fn counters_and_samples_that_disagree_tell_nothing() {
    for (waits, bounds) in [(0.9, bounds(0.0, 0.1)), (0.0, bounds(0.8, 0.9))] {
        let evidence = Evidence {
            mappings: Ok(Some("a pool is mapped".into())),
            ..counted(evidence(waits, 0.0, 0.0), bounds)
        };
        let decided = decide(None, &evidence);
        assert_eq!((decided.class, decided.source), (Class::Unknown, ClassSource::Undetermined));
        assert!(decided.why.contains("disagree"), "{decided:?}");
    }
}

#[test]
fn counters_decide_where_samples_cannot() {
    let unread = seen(Profile { samples: 200, unread: 1.0, ..Profile::default() });
    let refused = Evidence { profile: Err(Unavailable("refused".into())), ..unread.clone() };
    for evidence in [unread, refused, evidence(0.0, 0.49, 0.0)] {
        let told = |bounds| told(None, &counted(evidence.clone(), bounds));
        assert_eq!(told(bounds(0.7, 0.9)), (Class::Stall, ClassSource::Counters));
        assert_eq!(told(bounds(0.0, 0.2)), (Class::Compute, ClassSource::Counters));
        assert_eq!(told(bounds(0.2, 0.9)).0, Class::Unknown);
    }
}

#[test]
fn counters_without_a_class_leave_the_decision_to_samples() {
    let wide = |waits| counted(evidence(waits, 0.0, 0.0), bounds(0.1, 0.9));
    assert_eq!(told(None, &wide(0.9)), (Class::Stall, ClassSource::Sampling));
    assert_eq!(told(None, &wide(0.1)), (Class::Compute, ClassSource::Sampling));
}

/// Loads that miss do not show waits for flushes.
#[test]
fn few_misses_make_no_thread_compute_that_may_flush() {
    let misses = WaitBounds { sees_flushes: false, ..bounds(0.0, 0.01) };
    let flushes = counted(evidence(0.7, 0.0, 0.0), misses);
    assert_eq!(told(None, &flushes), (Class::Stall, ClassSource::Sampling));
    let unread = Profile { samples: 200, persists: 0.1, unread: 0.9, ..Profile::default() };
    let decided = decide(None, &counted(seen(unread), misses));
    assert_eq!(decided.class, Class::Unknown);
    assert!(decided.why.contains("do not show waits for flushes"), "{decided:?}");
    let blind = Evidence { profile: Err(Unavailable("refused".into())), ..flushes };
    assert_eq!(decide(None, &blind).class, Class::Unknown);
    let untold = Profile { samples: 200, untold: 0.9, ..Profile::default() };
    let decided = told(None, &counted(seen(untold), misses));
    assert_eq!(decided, (Class::Compute, ClassSource::Counters), "they are loads, and do not miss");
}

#[test]
fn a_thread_that_spins_has_no_class_by_counters_either() {
    let spins = counted(evidence(0.0, 0.0, 0.9), bounds(0.0, 0.1));
    assert_eq!(told(None, &spins), (Class::Unknown, ClassSource::Sampling));
}

proptest! {
    #[test]
    fn more_samples_never_make_it_less_sure(samples in 20_usize..1000, persists in 0.0..=1.0_f64) {
        let sure = |samples| {
            let profile = Profile { samples, persists, ..Profile::default() };
            decide(None, &seen(profile)).confidence
        };
        prop_assert!(sure(samples + 1) >= sure(samples));
        prop_assert!((0.0..=SUREST_SAMPLING).contains(&sure(samples)));
    }
}
