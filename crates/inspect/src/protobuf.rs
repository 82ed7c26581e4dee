//! Protobuf's encoding (protobuf.dev, "Encoding").

/// A message under construction.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    fn push_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn push_key(&mut self, field: u32, wire_type: u32) {
        self.push_varint(u64::from(field << 3 | wire_type));
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, field: u32, value: u64) {
        self.push_key(field, 0);
        self.push_varint(value);
    }

    /// Adds a number of 8 bytes.
    pub(crate) fn fixed(&mut self, field: u32, value: u64) {
        self.push_key(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds bytes, or text.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.push_key(field, 2);
        self.push_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a message, which `fill` fills.
    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// Adds a field of many numbers, packed.
    pub(crate) fn numbers(&mut self, field: u32, values: impl IntoIterator<Item = u64>) {
        let mut packed = Message::default();
        values.into_iter().for_each(|value| packed.push_varint(value));
        self.bytes(field, &packed.0);
    }

    /// Returns the encoded message.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.0
    }
}
