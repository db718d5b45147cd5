//! What the JSON of a command has in it: the same words that make the structs make the reference.

/// A type that stands in the JSON of some command.
pub trait Json {
    /// What it is, as in "number" or "list of objects".
    fn shape() -> String;

    /// The fields of the objects in it, if there are any.
    fn fields() -> Vec<Field> {
        Vec::new()
    }
}

/// One field of an object.
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub shape: String,
    /// What it says.
    pub doc: &'static str,
    /// The fields inside it.
    pub fields: Vec<Field>,
}

/// Makes a struct that serializes, and its documentation, from one text.
macro_rules! documented {
    ($(#[doc = $about:expr])+ pub struct $name:ident { $($(#[doc = $doc:expr])+ pub $field:ident: $type:ty,)+ }) => {
        $(#[doc = $about])+
        #[derive(Debug, serde::Serialize)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: $type,)+ }

        impl $crate::output::json::Json for $name {
            fn shape() -> String {
                "object".into()
            }

            fn fields() -> Vec<$crate::output::json::Field> {
                vec![$($crate::output::json::Field {
                    name: stringify!($field),
                    shape: <$type as $crate::output::json::Json>::shape(),
                    doc: concat!($($doc),+),
                    fields: <$type as $crate::output::json::Json>::fields(),
                }),+]
            }
        }
    };
}
pub(crate) use documented;

macro_rules! plain {
    ($shape:literal: $($type:ty),+) => {
        $(impl Json for $type {
            fn shape() -> String {
                $shape.into()
            }
        })+
    };
}

plain!("number": u8, u32, u64, i64, usize);
plain!("string": String, &'static str);
plain!("boolean": bool);

impl<T: Json> Json for Option<T> {
    fn shape() -> String {
        format!("{} or null", T::shape())
    }

    fn fields() -> Vec<Field> {
        T::fields()
    }
}

impl<T: Json> Json for Vec<T> {
    fn shape() -> String {
        format!("list of {}s", T::shape())
    }

    fn fields() -> Vec<Field> {
        T::fields()
    }
}
