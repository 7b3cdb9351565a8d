//! InnoDB's dump of a record, decoded: the key that a person can read, and the transaction that wrote it last.
//!
//! The formats are those of InnoDB's row storage: integers big-endian with the sign bit turned over, so that bytes sort as
//! the numbers do. A dump does not say a column's type; what is said here of a number is what its length and first bit allow.

/// A record's fields, in the order of its index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// All fields that were dumped.
    pub fields: Vec<Field>,
    /// The record is the page's upper end, which stands for the gap behind the last key.
    pub supremum: bool,
    /// `info bits 32`: the row was deleted and not yet purged.
    pub deleted: bool,
}

/// One field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// SQL NULL.
    Null,
    /// Its bytes, of which the server dumps at most 30, and how many there are in all.
    Bytes {
        /// What was dumped.
        bytes: Vec<u8>,
        /// The length of the whole.
        total: usize,
    },
}

impl Record {
    /// The fields before DB_TRX_ID (six bytes, followed by the seven of DB_ROLL_PTR): the primary key.
    /// Of a record of a secondary index, all fields: its columns, then those of the primary key.
    pub fn key(&self) -> &[Field] {
        self.fields.get(..self.writer_at().unwrap_or(self.fields.len())).unwrap_or_default()
    }

    /// Who wrote the row last: DB_TRX_ID, which only records of the clustered index have.
    pub fn writer(&self) -> Option<u64> {
        match self.fields.get(self.writer_at()?)? {
            Field::Bytes { bytes, .. } => Some(bytes.iter().fold(0, |id, byte| (id << 8) | u64::from(*byte))),
            Field::Null => None,
        }
    }

    fn writer_at(&self) -> Option<usize> {
        let long =
            |at: usize, length| matches!(self.fields.get(at), Some(Field::Bytes { total, .. }) if *total == length);
        (1..self.fields.len()).find(|at| long(*at, 6) && long(at + 1, 7))
    }
}

impl Field {
    /// The value as text: a number, a string, or bytes in hex.
    ///
    /// ```
    /// use rowlock_lens::Field;
    ///
    /// let field = |bytes: &[u8]| Field::Bytes { bytes: bytes.into(), total: bytes.len() }.text();
    /// assert_eq!(field(&[0x80, 0, 0, 0x14]), "20");
    /// assert_eq!(field(&[0x7f, 0xff, 0xff, 0xff]), "-1");
    /// assert_eq!(field(b"sku-7"), "sku-7");
    /// assert_eq!(field(&[0, 0xff, 0x10, 2, 0]), "0x00ff100200");
    /// ```
    pub fn text(&self) -> String {
        let (bytes, total) = match self {
            Field::Null => return "NULL".to_owned(),
            Field::Bytes { bytes, total } => (bytes, *total),
        };
        let cut = if bytes.len() < total { ".." } else { "" };
        let printable = !bytes.is_empty() && bytes.iter().all(|b| matches!(b, 0x20..=0x7e));
        if let (false, [first, ..], 1 | 2 | 3 | 4 | 8) = (printable, bytes.as_slice(), bytes.len())
            && cut.is_empty()
        {
            let value = bytes.iter().fold(0_i128, |value, byte| (value << 8) | i128::from(*byte));
            let sign = 1_i128 << (bytes.len() * 8 - 1);
            // A first byte of 0x40 to 0x7f is a negative number near zero; below, an unsigned one is likelier.
            let signed = *first >= 0x40;
            return if signed { (value - sign).to_string() } else { value.to_string() };
        }
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.is_empty() && !text.chars().any(char::is_control) => format!("{}{cut}", text.trim_end()),
            _ => {
                let mut hex = "0x".to_owned();
                bytes.iter().for_each(|byte| hex.push_str(&format!("{byte:02x}")));
                hex + cut
            }
        }
    }
}
