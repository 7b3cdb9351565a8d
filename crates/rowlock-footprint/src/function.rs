//! Functions: which names are the server's own and lock no row, and which may do anything.
//!
//! A name that is not on the lists here is opaque, whatever it does. Not on them on purpose: what locks (`pg_advisory_*`,
//! `get_lock`), what runs SQL (`dblink`, `query_to_xml`), and what acts on other sessions (`pg_terminate_backend`).

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Function, ObjectName, Statement, TableFactor, Visit, Visitor};

use crate::{Dialect, name};

/// The functions of a statement that are not known, in the order of the text, each as often as it stands there.
pub(crate) fn unknown(statement: &Statement, dialect: Dialect) -> Vec<String> {
    let mut names = Names { dialect, unknown: Vec::new() };
    let _ = statement.visit(&mut names);
    names.unknown
}

/// A known function whose value depends on its arguments only, or on the statement: the same for every row.
pub(crate) fn is_stable(function: &Function, dialect: Dialect) -> bool {
    #[rustfmt::skip]
    const OWN_FOR_EACH_ROW: [&str; 14] = [
        "clock_timestamp", "gen_random_uuid", "nextval", "rand", "random", "random_bytes", "random_normal", "randomblob",
        "sysdate", "uuid", "uuid_generate_v4", "uuid_short", "uuidv4", "uuidv7",
    ];
    let parts = name::parts(&function.name, dialect);
    let own = parts.last().is_some_and(|n| OWN_FOR_EACH_ROW.contains(&n.to_ascii_lowercase().as_str()));
    is_known(&function.name, dialect) && function.over.is_none() && !own
}

fn is_known(name: &ObjectName, dialect: Dialect) -> bool {
    let parts = name::parts(name, dialect);
    let Some((last, schema)) = parts.split_last() else { return false };
    if schema.last().is_some_and(|s| !s.eq_ignore_ascii_case("pg_catalog")) {
        return false;
    }
    let last = last.to_ascii_lowercase();
    let own = match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::MySql | Dialect::MariaDb => MYSQL,
        Dialect::Sqlite => SQLITE,
    };
    [COMMON, own].iter().any(|list| list.binary_search(&last.as_str()).is_ok())
}

struct Names {
    dialect: Dialect,
    unknown: Vec<String>,
}

impl Names {
    fn meet(&mut self, name: &ObjectName) {
        if !is_known(name, self.dialect) {
            self.unknown.push(name::parts(name, self.dialect).join("."));
        }
    }
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            self.meet(&function.name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor {
            self.meet(name);
        }
        ControlFlow::Continue(())
    }
}

/// On every server.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "abs", "acos", "any_value", "ascii", "asin", "atan", "atan2", "avg", "bit_and", "bit_length", "bit_or", "bit_xor",
    "cast", "ceil", "ceiling", "char_length", "character_length", "chr", "coalesce", "concat", "concat_ws", "convert",
    "cos", "cot", "count", "cume_dist", "current_date", "current_time", "current_timestamp", "current_user", "date",
    "degrees", "dense_rank", "exists", "exp", "extract", "first_value", "floor", "format", "greatest", "group_concat",
    "hex", "ifnull", "json_array", "json_array_length", "json_extract", "json_object", "json_type", "json_valid",
    "lag", "last_value", "lead", "least", "left", "length", "ln", "localtime", "localtimestamp", "log", "log10",
    "log2", "lower", "lpad", "ltrim", "max", "md5", "min", "mod", "now", "nth_value", "ntile", "nullif",
    "octet_length", "overlay", "percent_rank", "pi", "position", "pow", "power", "radians", "rank", "repeat",
    "replace", "reverse", "right", "round", "row", "row_number", "rpad", "rtrim", "sign", "sin", "space", "sqrt",
    "stddev", "stddev_pop", "stddev_samp", "strpos", "substr", "substring", "sum", "tan", "time", "timestamp",
    "total", "trim", "trunc", "truncate", "unhex", "upper", "values", "var_pop", "var_samp", "variance",
];

/// PostgreSQL's, and of the extensions pg_trgm and uuid-ossp.
#[rustfmt::skip]
const POSTGRES: &[&str] = &[
    "age", "array", "array_agg", "array_append", "array_cat", "array_dims", "array_fill", "array_length", "array_lower",
    "array_ndims", "array_position", "array_positions", "array_prepend", "array_remove", "array_replace",
    "array_to_json", "array_to_string", "array_upper", "bit_count", "bool_and", "bool_or", "btrim", "cardinality",
    "cbrt", "clock_timestamp", "col_description", "corr", "covar_pop", "covar_samp", "current_catalog",
    "current_database", "current_role", "current_schema", "current_schemas", "current_setting", "currval", "date_bin",
    "date_part", "date_trunc", "daterange", "decode", "div", "encode", "every", "factorial", "format_type", "gcd",
    "gen_random_uuid", "generate_series", "generate_subscripts", "get_bit", "get_byte", "grouping",
    "has_table_privilege", "inet_client_addr", "initcap", "int4range", "int8range", "isempty", "isfinite", "json_agg",
    "json_array_elements", "json_array_elements_text", "json_build_array", "json_build_object", "json_each",
    "json_each_text", "json_extract_path", "json_extract_path_text", "json_object_agg", "json_object_keys",
    "json_populate_record", "json_populate_recordset", "json_strip_nulls", "json_to_record", "json_to_recordset",
    "json_typeof", "jsonb_agg", "jsonb_array_elements", "jsonb_array_elements_text", "jsonb_array_length",
    "jsonb_build_array", "jsonb_build_object", "jsonb_each", "jsonb_each_text", "jsonb_extract_path",
    "jsonb_extract_path_text", "jsonb_insert", "jsonb_object", "jsonb_object_agg", "jsonb_object_keys",
    "jsonb_path_exists", "jsonb_path_query", "jsonb_path_query_array", "jsonb_path_query_first",
    "jsonb_populate_record", "jsonb_populate_recordset", "jsonb_pretty", "jsonb_set", "jsonb_strip_nulls",
    "jsonb_to_record", "jsonb_to_recordset", "jsonb_typeof", "justify_days", "justify_hours", "justify_interval",
    "lastval", "lcm", "lower_inc", "lower_inf", "make_date", "make_interval", "make_time", "make_timestamp",
    "make_timestamptz", "mode", "multirange", "nextval", "num_nonnulls", "num_nulls", "numrange", "obj_description",
    "parse_ident", "percentile_cont", "percentile_disc", "pg_backend_pid", "pg_blocking_pids", "pg_column_size",
    "pg_current_snapshot", "pg_current_wal_lsn", "pg_current_xact_id", "pg_current_xact_id_if_assigned",
    "pg_database_size", "pg_encoding_to_char", "pg_get_constraintdef", "pg_get_expr", "pg_get_indexdef",
    "pg_get_serial_sequence", "pg_get_userbyid", "pg_indexes_size", "pg_is_in_recovery", "pg_notify", "pg_relation_size",
    "pg_size_pretty", "pg_sleep", "pg_table_is_visible", "pg_table_size", "pg_total_relation_size", "pg_typeof",
    "pg_xact_status", "phraseto_tsquery", "plainto_tsquery", "quote_ident", "quote_literal", "quote_nullable",
    "random", "random_normal", "range_agg", "range_merge", "regexp_count", "regexp_instr", "regexp_like",
    "regexp_match", "regexp_matches", "regexp_replace", "regexp_split_to_array", "regexp_split_to_table",
    "regexp_substr", "regr_count", "regr_slope", "row_to_json", "scale", "session_user", "set_bit", "set_byte",
    "setseed", "setval", "sha224", "sha256", "sha384", "sha512", "similarity", "split_part", "starts_with",
    "statement_timestamp", "string_agg", "string_to_array", "string_to_table", "timeofday", "to_ascii", "to_char",
    "to_date", "to_hex", "to_json", "to_jsonb", "to_number", "to_regclass", "to_timestamp", "to_tsquery",
    "to_tsvector", "transaction_timestamp", "translate", "ts_headline", "ts_rank", "ts_rank_cd", "tsrange",
    "tstzrange", "txid_current", "txid_current_if_assigned", "unnest", "upper_inc", "upper_inf",
    "uuid_extract_timestamp", "uuid_generate_v4", "uuidv4", "uuidv7", "version", "websearch_to_tsquery",
    "width_bucket", "word_similarity", "xmlagg",
];

/// MySQL's and MariaDB's.
#[rustfmt::skip]
const MYSQL: &[&str] = &[
    "adddate", "addtime", "aes_decrypt", "aes_encrypt", "benchmark", "bin", "bin_to_uuid", "bit_count", "char",
    "charset", "coercibility", "collation", "compress", "connection_id", "conv", "convert_tz", "crc32", "curdate",
    "curtime", "database", "date_add", "date_format", "date_sub", "datediff", "day", "dayname", "dayofmonth",
    "dayofweek", "dayofyear", "default", "default_value", "elt", "export_set", "field", "find_in_set", "found_rows",
    "from_base64", "from_days", "from_unixtime", "get_format", "hour", "if", "inet6_aton", "inet6_ntoa", "inet_aton",
    "inet_ntoa", "insert", "instr", "interval", "is_uuid", "isnull", "json_arrayagg", "json_contains",
    "json_contains_path", "json_depth", "json_insert", "json_keys", "json_length", "json_merge_patch",
    "json_merge_preserve", "json_objectagg", "json_overlaps", "json_pretty", "json_quote", "json_remove",
    "json_replace", "json_search", "json_set", "json_table", "json_unquote", "json_value", "last_day",
    "last_insert_id", "lastval", "lcase", "locate", "make_set", "makedate", "maketime", "microsecond", "mid",
    "minute", "month", "monthname", "name_const", "nextval", "oct", "ord", "password", "period_add", "period_diff",
    "quarter", "quote", "rand", "random_bytes", "regexp_instr", "regexp_like", "regexp_replace", "regexp_substr",
    "row_count", "schema", "sec_to_time", "second", "session_user", "setval", "sha", "sha1", "sha2", "sleep", "std",
    "str_to_date", "strcmp", "subdate", "substring_index", "subtime", "sysdate", "system_user", "time_format",
    "time_to_sec", "timediff", "timestampadd", "timestampdiff", "to_base64", "to_days", "to_seconds", "ucase",
    "uncompress", "unix_timestamp", "user", "utc_date", "utc_time", "utc_timestamp", "uuid", "uuid_short",
    "uuid_to_bin", "value", "version", "week", "weekday", "weekofyear", "weight_string", "year", "yearweek",
];

/// SQLite's.
#[rustfmt::skip]
const SQLITE: &[&str] = &[
    "changes", "char", "datetime", "fts5", "generate_series", "glob", "ieee754", "if", "iif", "instr", "json",
    "json_array", "json_each", "json_error_position", "json_group_array", "json_group_object", "json_insert",
    "json_patch", "json_quote", "json_remove", "json_replace", "json_set", "json_tree", "jsonb", "jsonb_array",
    "jsonb_extract", "jsonb_group_array", "jsonb_group_object", "jsonb_insert", "jsonb_object", "jsonb_patch",
    "jsonb_remove", "jsonb_replace", "jsonb_set", "julianday", "last_insert_rowid", "like", "likelihood", "likely",
    "octet_length", "printf", "quote", "random", "randomblob", "soundex", "sqlite_version", "strftime", "string_agg",
    "timediff", "total_changes", "typeof", "unicode", "unixepoch", "unlikely", "zeroblob",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        for list in [COMMON, POSTGRES, MYSQL, SQLITE] {
            assert!(list.is_sorted(), "binary search needs order");
        }
    }
}
