//! Contents of messages, of a type or of a number of bytes.

use crate::placed::agreed;
use bytemuck::{Pod, bytes_of, bytes_of_mut};

/// Content of the messages of a [`Channel`](super::Channel): any type of plain data, or `[u8]`.
///
/// All messages of a `Channel<[u8]>` have the same number of bytes, which its maker chooses:
/// [`ChannelOptions::message_bytes`](super::ChannelOptions::message_bytes).
///
/// No other crate can implement it: a content of two lengths would be unsound.
pub trait Content: sealed::Sealed + 'static {
    /// Returns the bytes of each message, for which the options of the channel say `chosen`.
    #[doc(hidden)]
    fn size(chosen: u32) -> usize;

    /// Returns the hash of the type; 0 for any type.
    #[doc(hidden)]
    fn agreed() -> u64;

    #[doc(hidden)]
    fn bytes(&self) -> &[u8];

    #[doc(hidden)]
    fn bytes_mut(&mut self) -> &mut [u8];
}

mod sealed {
    pub trait Sealed {}
    impl<T: bytemuck::Pod> Sealed for T {}
    impl Sealed for [u8] {}
}

impl<T: Pod> Content for T {
    #[inline]
    fn size(_: u32) -> usize {
        size_of::<T>()
    }

    fn agreed() -> u64 {
        agreed::<T>()
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        bytes_of(self)
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        bytes_of_mut(self)
    }
}

impl Content for [u8] {
    #[inline]
    fn size(chosen: u32) -> usize {
        chosen as usize
    }

    fn agreed() -> u64 {
        0
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::{Channel, MIN_BYTES, RecvError, Segment, SegmentError, SendError};

    fn bytes(segment: &Segment, each: u32) -> Channel<[u8]> {
        let options = Channel::options().capacity(2).message_bytes(each);
        Channel::create(segment, &format!("{each} bytes"), options).unwrap()
    }

    #[test]
    fn records_of_any_size_arrive_whole_and_in_order() {
        let segment = Segment::anonymous(MIN_BYTES).unwrap();
        for each in [0, 1, 7, 8, 9, 100] {
            let channel = bytes(&segment, each);
            let (mut sender, mut receiver) =
                (channel.sender().unwrap(), channel.receiver().unwrap());
            let mut got = vec![0; each as usize];
            for round in 0..5 {
                let sent = [round, round + 100].map(|first| vec![first; each as usize]);
                sent.iter().for_each(|record| sender.send_ref(record).unwrap());
                assert_eq!(sender.try_send_ref(&sent[0]), Err(SendError::Full));
                for record in &sent {
                    receiver.recv_into(&mut got).unwrap();
                    assert_eq!(&got, record);
                }
                assert_eq!(receiver.try_recv_into(&mut got), Err(RecvError::Empty));
            }
        }
    }

    #[test]
    fn types_and_bytes_share_a_channel_if_their_sizes_agree() {
        let segment = Segment::anonymous(MIN_BYTES).unwrap();
        // The slots of 5 and of 8 bytes have the same size.
        let (five, eight) = (bytes(&segment, 5), bytes(&segment, 8));
        assert_eq!((five.message_bytes(), eight.message_bytes()), (5, 8));
        let refused = Channel::<u64>::open(&segment, "5 bytes").unwrap_err();
        assert!(matches!(refused, SegmentError::Other { differs: "size", .. }), "{refused}");

        let typed = Channel::<u64>::open(&segment, "8 bytes").unwrap();
        typed.sender().unwrap().send(7).unwrap();
        let mut got = [0; 8];
        eight.receiver().unwrap().recv_into(&mut got[..]).unwrap();
        assert_eq!(got, 7u64.to_ne_bytes());

        let options = Channel::options().message_bytes(3);
        let _made = Channel::<[u16; 3]>::create(&segment, "typed", options).unwrap();
        assert_eq!(Channel::<[u8]>::open(&segment, "typed").unwrap().message_bytes(), 6);
        let refused = Channel::<[u8; 6]>::open(&segment, "typed").unwrap_err();
        assert!(matches!(refused, SegmentError::Other { differs: "type", .. }), "{refused}");
    }

    #[test]
    #[should_panic(expected = "daiko: 4 bytes for a channel with messages of 5")]
    fn a_message_of_another_size_is_not_sent() {
        let segment = Segment::anonymous(MIN_BYTES).unwrap();
        let _ = bytes(&segment, 5).sender().unwrap().try_send_ref(&[0; 4]);
    }

    #[test]
    #[should_panic(expected = "daiko: 6 bytes for a channel with messages of 5")]
    fn a_message_of_another_size_is_not_received() {
        let segment = Segment::anonymous(MIN_BYTES).unwrap();
        let _ = bytes(&segment, 5).receiver().unwrap().try_recv_into(&mut [0; 6]);
    }
}
