use super::*;

#[test]
fn a_loan_ends_with_the_context_that_was_received() {
    let loan = Loan::new(0);
    // SAFETY: this thread is both the kernel thread and the worker, in turn.
    unsafe { loan.depart('f') };
    let mut published = None;
    let receive = |word: &AtomicU32, lent| {
        assert_eq!(word.load(Ordering::Relaxed), lent);
        // SAFETY: as above.
        unsafe {
            Loan::receive(NonNull::from(&loan), 5, |woken| assert_eq!(woken, &raw const *word))
        };
    };
    // SAFETY: as above.
    let context = unsafe { loan.keep(|fiber| published = Some(fiber), receive) };
    assert_eq!((published, context), (Some('f'), 5));
}

#[test]
fn one_poke_is_on_its_way_to_a_worker() {
    let words = [PokeWord::new(), PokeWord::new()];
    let mut sent = 0;
    let mut poke = |word: &PokeWord, arrives| {
        let before = sent;
        word.poke(7, || {
            sent += 1;
            arrives
        });
        sent > before
    };
    assert!(poke(&words[0], false));
    assert!(poke(&words[0], true), "the first was not sent");
    assert!(!poke(&words[0], true));
    assert!(poke(&words[1], true));
    PokeWord::end(&words, 8);
    assert!(!poke(&words[0], true), "another thread was poked");
    PokeWord::end(&words, 7);
    assert!(words.iter().all(|word| poke(word, true)), "a thread of two workers");
}
