use super::*;

#[test]
fn a_wait_that_is_published_is_ended_once() {
    let interrupts = Interrupts::<u32>::new();
    assert_eq!(interrupts.interrupt(|wait| *wait), None);
    assert!(interrupts.are_due());
    interrupts.clear();
    let wait = 7;
    // SAFETY: retracted below.
    unsafe { interrupts.publish(&wait) };
    assert!(!interrupts.are_due());
    assert_eq!(interrupts.interrupt(|wait| *wait), Some(7));
    assert_eq!(interrupts.interrupt(|wait| *wait), Some(7), "it is back in its place");
    interrupts.retract(&wait);
    assert_eq!(interrupts.interrupt(|wait| *wait), None);
}
