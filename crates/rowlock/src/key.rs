//! Keys: which row. Every key has one form, [`KeyValue`], and one order, that of `KeyValue`: the same in every process,
//! whatever the database's collation, since two processes that sort differently lock differently.

use std::{fmt, sync::Arc};

use uuid::Uuid;

/// What a key column holds, as far as rowlock must know it to bind, to compare and to sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// An integer of any width but MySQL's and MariaDB's `bigint unsigned`, whose upper half an `i64` cannot hold.
    Integer,
    /// An integer up to the end of `u64`: `bigint unsigned`, and whatever [`KeyType::Integer`] is. A newtype of `u64` says this.
    Unsigned,
    /// A UUID: PostgreSQL's `uuid`, `binary(16)` on MySQL and MariaDB, a 16-byte blob on SQLite.
    Uuid,
    /// Text, compared bytewise.
    Text,
    /// Bytes: `bytea`, `varbinary`, `blob`.
    Bytes,
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KeyType::Integer => "integer",
            KeyType::Unsigned => "unsigned integer",
            KeyType::Uuid => "uuid",
            KeyType::Text => "text",
            KeyType::Bytes => "bytes",
        })
    }
}

/// The value of a key, in the one form that is compared and sorted. Its derived order is the lock order within a
/// resource: integers by value, UUIDs, text and bytes bytewise, tuples column by column.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyValue {
    /// Any integer that an engine stores, from `i64::MIN` to `u64::MAX`.
    Integer(i128),
    /// Sixteen bytes, in the order of the bytes (which is the order of the usual text form too).
    Uuid(Uuid),
    /// UTF-8 text, in the order of its bytes.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A composite key: two to four columns.
    Tuple(Arc<[KeyValue]>),
}

impl KeyValue {
    /// The values of the key's columns, in the key's order.
    pub fn columns(&self) -> &[KeyValue] {
        match self {
            KeyValue::Tuple(columns) => columns,
            one => std::slice::from_ref(one),
        }
    }

    pub(crate) fn from_columns(mut columns: Vec<KeyValue>) -> Option<KeyValue> {
        match columns.len() {
            0 => None,
            1 => columns.pop(),
            _ => Some(KeyValue::Tuple(columns.into())),
        }
    }
}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyValue::Integer(n) => write!(f, "{n}"),
            KeyValue::Uuid(u) => write!(f, "{u}"),
            KeyValue::Text(t) => write!(f, "{t:?}"),
            KeyValue::Bytes(bytes) => {
                f.write_str("x'")?;
                for byte in bytes.iter() {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("'")
            }
            KeyValue::Tuple(columns) => {
                f.write_str("(")?;
                for (n, column) in columns.iter().enumerate() {
                    write!(f, "{}{column}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A Rust type that is a key of one column. Implement it for your newtypes:
///
/// ```
/// use rowlock::{KeyColumn, KeyType, KeyValue};
///
/// #[derive(Clone, Copy, Debug)]
/// struct OrderId(i64);
///
/// impl KeyColumn for OrderId {
///     const TYPE: KeyType = KeyType::Integer;
///     fn to_value(&self) -> KeyValue {
///         self.0.to_value()
///     }
///     fn from_value(value: &KeyValue) -> Option<Self> {
///         i64::from_value(value).map(OrderId)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key column",
    label = "not a type of key columns",
    note = "a key column is an integer, `Uuid`, `String`, `Vec<u8>`, or a type of yours that implements `rowlock::KeyColumn`"
)]
pub trait KeyColumn: Clone + fmt::Debug + Send + Sync + 'static {
    /// What the column holds.
    const TYPE: KeyType;
    /// The value in the form that is compared and sorted.
    fn to_value(&self) -> KeyValue;
    /// Back again; `None` when the value is of another type or does not fit.
    fn from_value(value: &KeyValue) -> Option<Self>;
}

/// A key: one [`KeyColumn`], or a tuple of two to four.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key",
    label = "not a type of keys",
    note = "a key column is an integer, `Uuid`, `String`, `Vec<u8>`, or a type of yours that implements `rowlock::KeyColumn`"
)]
pub trait Key: AsKey<Self> + Clone + fmt::Debug + Send + Sync + 'static {
    /// The types of its columns.
    const COLUMNS: &'static [KeyType];
    /// The value in the form that is compared and sorted.
    fn value(&self) -> KeyValue;
    /// Back again; `None` when the value is of another type or does not fit.
    fn of(value: &KeyValue) -> Option<Self>;
}

#[diagnostic::do_not_recommend]
impl<T: KeyColumn> Key for T {
    const COLUMNS: &'static [KeyType] = &[T::TYPE];
    fn value(&self) -> KeyValue {
        KeyColumn::to_value(self)
    }
    fn of(value: &KeyValue) -> Option<Self> {
        KeyColumn::from_value(value)
    }
}

/// What `lock` takes as a key: the key, a reference to it, or the borrowed form of text and bytes, in a tuple too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key of this resource, whose key is `{K}`",
    label = "expected keys of type `{K}`"
)]
pub trait AsKey<K> {
    /// The key's value.
    fn as_key(&self) -> KeyValue;
}

#[diagnostic::do_not_recommend]
impl<C: KeyColumn> AsKey<C> for C {
    fn as_key(&self) -> KeyValue {
        self.to_value()
    }
}

#[diagnostic::do_not_recommend]
impl<K: Key> AsKey<K> for &K {
    fn as_key(&self) -> KeyValue {
        K::value(self)
    }
}

#[diagnostic::do_not_recommend]
impl AsKey<String> for &str {
    fn as_key(&self) -> KeyValue {
        KeyValue::Text((*self).into())
    }
}

/// From a list of `&str` that is walked by reference.
#[diagnostic::do_not_recommend]
impl AsKey<String> for &&str {
    fn as_key(&self) -> KeyValue {
        (**self).as_key()
    }
}

#[diagnostic::do_not_recommend]
impl AsKey<Vec<u8>> for &[u8] {
    fn as_key(&self) -> KeyValue {
        KeyValue::Bytes((*self).into())
    }
}

macro_rules! integers {
    ($($t:ty: $of:ident),+) => { $(
        impl KeyColumn for $t {
            const TYPE: KeyType = KeyType::$of;
            fn to_value(&self) -> KeyValue {
                KeyValue::Integer(i128::from(*self))
            }
            fn from_value(value: &KeyValue) -> Option<Self> {
                match value {
                    KeyValue::Integer(n) => (*n).try_into().ok(),
                    _ => None,
                }
            }
        }
    )+ };
}
integers!(i8: Integer, i16: Integer, i32: Integer, i64: Integer, u8: Integer, u16: Integer, u32: Integer, u64: Unsigned);

impl KeyColumn for Uuid {
    const TYPE: KeyType = KeyType::Uuid;
    fn to_value(&self) -> KeyValue {
        KeyValue::Uuid(*self)
    }
    fn from_value(value: &KeyValue) -> Option<Self> {
        match value {
            KeyValue::Uuid(u) => Some(*u),
            _ => None,
        }
    }
}

impl KeyColumn for String {
    const TYPE: KeyType = KeyType::Text;
    fn to_value(&self) -> KeyValue {
        KeyValue::Text(self.as_str().into())
    }
    fn from_value(value: &KeyValue) -> Option<Self> {
        match value {
            KeyValue::Text(t) => Some(t.to_string()),
            _ => None,
        }
    }
}

impl KeyColumn for Vec<u8> {
    const TYPE: KeyType = KeyType::Bytes;
    fn to_value(&self) -> KeyValue {
        KeyValue::Bytes(self.as_slice().into())
    }
    fn from_value(value: &KeyValue) -> Option<Self> {
        match value {
            KeyValue::Bytes(b) => Some(b.to_vec()),
            _ => None,
        }
    }
}

macro_rules! tuples {
    ($($len:literal: $($t:ident $as:ident $n:tt),+;)+) => { $(
        /// Column by column: `("a", 1)` is a key of `(String, i32)`. (A list of such tuples is given by value: `.copied()`.)
        #[diagnostic::do_not_recommend]
        impl<$($t: KeyColumn, $as: AsKey<$t>),+> AsKey<($($t,)+)> for ($($as,)+) {
            fn as_key(&self) -> KeyValue {
                KeyValue::Tuple(Arc::new([$(self.$n.as_key()),+]))
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$($t: KeyColumn),+> Key for ($($t,)+) {
            const COLUMNS: &'static [KeyType] = &[$($t::TYPE),+];
            fn value(&self) -> KeyValue {
                KeyValue::Tuple(Arc::new([$(self.$n.to_value()),+]))
            }
            fn of(value: &KeyValue) -> Option<Self> {
                let columns = value.columns();
                if columns.len() != $len {
                    return None;
                }
                Some(($($t::from_value(&columns[$n])?,)+))
            }
        }
    )+ };
}
tuples! {
    2: A V 0, B W 1;
    3: A V 0, B W 1, C X 2;
    4: A V 0, B W 1, C X 2, D Y 3;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn integers_of_every_width_share_one_order() {
        assert!((-1i8).as_key() < AsKey::<u64>::as_key(&u64::MAX));
        assert!(AsKey::<i64>::as_key(&i64::MAX) < AsKey::<u64>::as_key(&u64::MAX));
        assert_eq!(u8::of(&KeyValue::Integer(300)), None);
    }

    #[test]
    fn text_keys_are_taken_in_every_borrowed_form() {
        let owned = String::from("a");
        let forms = [owned.as_key(), AsKey::<String>::as_key(&&owned), "a".as_key(), AsKey::<String>::as_key(&&"a")];
        assert!(forms.iter().all(|form| *form == KeyValue::Text("a".into())));
    }

    #[test]
    fn columns_of_a_tuple_are_taken_in_every_borrowed_form() {
        type Two = (String, i32);
        let owned = (String::from("a"), 1);
        let borrowed = ("a", 1);
        let forms: [KeyValue; 4] = [
            AsKey::<Two>::as_key(&owned),
            AsKey::<Two>::as_key(&&owned),
            AsKey::<Two>::as_key(&borrowed),
            AsKey::<Two>::as_key(&(&owned.0, 1)),
        ];
        assert!(forms.iter().all(|form| *form == owned.value()));
        assert_eq!(
            AsKey::<(i64, Vec<u8>, Uuid)>::as_key(&(7, &b"x"[..], Uuid::nil())),
            (7i64, b"x".to_vec(), Uuid::nil()).value()
        );
    }

    proptest! {
        #[test]
        fn a_key_survives_its_value(a: i64, b: String, c: Vec<u8>, d: u128) {
            let key = (a, b, c, Uuid::from_u128(d));
            prop_assert_eq!(Key::of(&key.value()), Some(key));
        }

        #[test]
        fn text_and_uuids_sort_by_their_bytes(a: String, b: String, u: u128, v: u128) {
            prop_assert_eq!(KeyColumn::to_value(&a).cmp(&KeyColumn::to_value(&b)), a.as_bytes().cmp(b.as_bytes()));
            let (u, v) = (Uuid::from_u128(u), Uuid::from_u128(v));
            prop_assert_eq!(KeyColumn::to_value(&u).cmp(&KeyColumn::to_value(&v)), u.to_string().cmp(&v.to_string()));
        }
    }
}
