//! PostgreSQL's `pg_catalog`, read by one text of several statements: one trip, one transaction, one server behind a pooler.

use std::collections::HashMap;

use rowlock_footprint::{Action, Column, ForeignKey, Schema, Table, TableName, UniqueKey};
use sqlx::{PgConnection, Postgres, Row, postgres::PgRow};

use super::{Catalog, Details, hash, row_sets};
use crate::Dialect;

pub(crate) async fn read(connection: &mut PgConnection) -> Result<Catalog, sqlx::Error> {
    // The fingerprint comes first: what changes while the rest is read gives another one at the next look.
    let sql = [FINGERPRINT, SERVER, TABLES, COLUMNS, UNIQUE_KEYS, FOREIGN_KEYS, VIEWS].join(";\n");
    let mut sets = row_sets::<Postgres>(connection, sql).await?;
    let fingerprint = digest(&sets.next().unwrap_or_default())?;
    let server = sets.next().and_then(|mut rows| rows.pop()).ok_or(sqlx::Error::RowNotFound)?;

    let mut tables = Tables::default();
    tables.name_all(sets.next().unwrap_or_default())?;
    sets.next().unwrap_or_default().iter().try_for_each(|row| tables.column(row))?;
    sets.next().unwrap_or_default().iter().try_for_each(|row| tables.unique_key(row))?;
    sets.next().unwrap_or_default().iter().try_for_each(|row| tables.foreign_key(row))?;
    sets.next().unwrap_or_default().iter().try_for_each(|row| tables.beneath(row))?;

    let mut schema = Schema::default();
    schema.search_path = server.try_get("search_path")?;
    let mut details = HashMap::new();
    for (table, detail) in tables.by_oid.into_values() {
        details.insert(table.name.clone(), detail);
        schema.insert(table);
    }
    let version = server.try_get("version")?;
    Ok(Catalog {
        dialect: Dialect::Postgres,
        version,
        schema,
        fingerprint,
        details,
        triggers_hidden: false,
        folded: false,
    })
}

pub(crate) async fn fingerprint(connection: &mut PgConnection) -> Result<u64, sqlx::Error> {
    digest(&row_sets::<Postgres>(connection, FINGERPRINT.into()).await?.next().unwrap_or_default())
}

fn digest(rows: &[PgRow]) -> Result<u64, sqlx::Error> {
    Ok(hash(rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get::<String, _>(0)?))
}

#[derive(Default)]
struct Tables {
    by_oid: HashMap<i64, (Table, Details)>,
}

impl Tables {
    fn name_all(&mut self, rows: Vec<PgRow>) -> Result<(), sqlx::Error> {
        let mut parents = Vec::new();
        for row in rows {
            let oid: i64 = row.try_get("oid")?;
            let name = TableName { schema: Some(row.try_get("schema")?), name: row.try_get("name")? };
            let (kind, has_children): (String, bool) = (row.try_get("kind")?, row.try_get("has_children")?);
            let kind_name = match kind.as_str() {
                "v" => Some("view"),
                "m" => Some("materialized view"),
                "f" => Some("foreign table"),
                _ => None,
            };
            let table = Table {
                triggers: row.try_get("triggers")?,
                rules: row.try_get("rules")?,
                row_security: row.try_get("row_security")?,
                partitioned: kind == "p" || has_children || row.try_get::<bool, _>("is_partition")?,
                view: kind_name.is_some(),
                ..Table::new(name)
            };
            parents.push((oid, row.try_get::<Vec<i64>, _>("parents")?));
            let details = Details { kind: kind_name, inherited: has_children && kind != "p", ..Details::default() };
            self.by_oid.insert(oid, (table, details));
        }
        for (oid, parents) in parents {
            let names = parents.iter().filter_map(|parent| Some(self.by_oid.get(parent)?.0.name.clone())).collect();
            if let Some((_, details)) = self.by_oid.get_mut(&oid) {
                details.parents = names;
            }
        }
        Ok(())
    }

    fn column(&mut self, row: &PgRow) -> Result<(), sqlx::Error> {
        if let Some((table, _)) = self.by_oid.get_mut(&row.try_get("oid")?) {
            table.columns.push(Column {
                name: row.try_get("name")?,
                type_name: row.try_get("type")?,
                nullable: row.try_get("nullable")?,
                generated: row.try_get("generated")?,
                collation: row.try_get("collation")?,
                bytewise: row.try_get("bytewise")?,
            });
        }
        Ok(())
    }

    fn unique_key(&mut self, row: &PgRow) -> Result<(), sqlx::Error> {
        if let Some((table, _)) = self.by_oid.get_mut(&row.try_get("oid")?) {
            let columns: Vec<String> = row.try_get("columns")?;
            if row.try_get("is_primary")? {
                table.primary_key.clone_from(&columns);
            }
            table.unique_keys.push(UniqueKey { name: row.try_get("name")?, columns, partial: row.try_get("partial")? });
        }
        Ok(())
    }

    fn beneath(&mut self, row: &PgRow) -> Result<(), sqlx::Error> {
        let beneath = self.by_oid.get(&row.try_get("beneath")?).map(|(table, _)| table.name.clone());
        if let (Some(beneath), Some((view, _))) = (beneath, self.by_oid.get_mut(&row.try_get("oid")?)) {
            view.beneath.push(beneath);
        }
        Ok(())
    }

    fn foreign_key(&mut self, row: &PgRow) -> Result<(), sqlx::Error> {
        let parent = self.by_oid.get(&row.try_get("parent")?).map(|(table, _)| table.name.clone());
        if let (Some(parent), Some((table, _))) = (parent, self.by_oid.get_mut(&row.try_get("oid")?)) {
            table.foreign_keys.push(ForeignKey {
                name: row.try_get("name")?,
                columns: row.try_get("columns")?,
                parent,
                parent_columns: row.try_get("parent_columns")?,
                on_delete: action(row.try_get("on_delete")?),
                on_update: action(row.try_get("on_update")?),
                deferred: row.try_get("deferred")?,
            });
        }
        Ok(())
    }
}

fn action(code: &str) -> Action {
    match code {
        "r" => Action::Restrict,
        "c" => Action::Cascade,
        "n" => Action::SetNull,
        "d" => Action::SetDefault,
        _ => Action::NoAction,
    }
}

const SERVER: &str =
    "select current_setting('server_version') as version, current_schemas(false)::text[] as search_path";

/// A trigger that is off, or on for replicas only, does not run; one that only TRUNCATE sets off locks no row (bits of
/// `tgtype`: 4 insert, 8 delete, 16 update).
const TABLES: &str = "
select c.oid::int8 as oid, n.nspname::text as schema, c.relname::text as name, c.relkind::text as kind,
       c.relispartition as is_partition,
       c.relhassubclass and exists (select from pg_inherits i where i.inhparent = c.oid) as has_children,
       c.relrowsecurity and row_security_active(c.oid) as row_security,
       array(select t.tgname::text from pg_trigger t
             where t.tgrelid = c.oid and not t.tgisinternal and t.tgenabled in ('O', 'A') and t.tgtype & 28 <> 0
             order by t.tgname) as triggers,
       array(select r.rulename::text from pg_rewrite r
             where r.ev_class = c.oid and r.rulename <> '_RETURN' and r.ev_enabled in ('O', 'A')
             order by r.rulename) as rules,
       array(select i.inhparent::int8 from pg_inherits i where i.inhrelid = c.oid order by i.inhseqno) as parents
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'";

/// A domain is what it is made of (the innermost has the type modifier). Equality of a number of digits, of floats,
/// intervals and of types that extensions bring is not bytewise, or is not known to be.
const COLUMNS: &str = r"
with recursive domain(oid, base, typmod) as (
    select oid, typbasetype, typtypmod from pg_type where typtype = 'd'
    union all
    select d.oid, t.typbasetype, t.typtypmod from domain d join pg_type t on t.oid = d.base where t.typtype = 'd'
)
select a.attrelid::int8 as oid, a.attname::text as name, format_type(b.oid, coalesce(d.typmod, a.atttypmod)) as type,
       not a.attnotnull as nullable,
       a.attidentity <> '' or a.attgenerated = '' and coalesce(pg_get_expr(f.adbin, f.adrelid)
           ~ '^(nextval\(|([\w]+\.)?(gen_random_uuid|uuidv4|uuidv7|uuid_generate_v1|uuid_generate_v1mc|uuid_generate_v4)\()', false)
           as generated,
       k.collname::text as collation,
       (b.typtype = 'e' or b.typnamespace = 'pg_catalog'::regnamespace and b.typname in (
           'bool', 'int2', 'int4', 'int8', 'oid', 'uuid', 'text', 'varchar', 'name', 'char', 'bytea', 'bit', 'varbit',
           'date', 'time', 'timestamp', 'timestamptz', 'money', 'macaddr', 'macaddr8', 'pg_lsn', 'xid8'))
           and coalesce(k.collisdeterministic, true) as bytewise
from pg_attribute a
join pg_class c on c.oid = a.attrelid
join pg_namespace n on n.oid = c.relnamespace
left join (select d.* from domain d join pg_type t on t.oid = d.base and t.typtype <> 'd') d on d.oid = a.atttypid
join pg_type b on b.oid = coalesce(d.base, a.atttypid)
left join pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
left join pg_collation k on k.oid = a.attcollation
where a.attnum > 0 and not a.attisdropped
  and c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
order by a.attrelid, a.attnum";

/// An index that compares by another collation than its column counts as one on an expression: it is not used for `=`.
/// One that is not valid yet, or made with WITHOUT OVERLAPS, does not make rows unique by its columns.
const UNIQUE_KEYS: &str = "
select i.indrelid::int8 as oid, x.relname::text as name, i.indisprimary as is_primary, k.columns,
       i.indpred is not null or not i.indisvalid or i.indisexclusion or k.computed as partial
from pg_index i
join pg_class x on x.oid = i.indexrelid
join pg_namespace n on n.oid = x.relnamespace
cross join lateral (
    select bool_or(e.computed) as computed,
           array_agg(case when e.computed then pg_get_indexdef(i.indexrelid, e.n::int, true) else e.name end order by e.n)
               as columns
    from (select u.n, a.attname::text as name, u.attnum = 0 or u.coll is distinct from a.attcollation as computed
          from unnest(i.indkey::int2[], i.indcollation::oid[]) with ordinality u(attnum, coll, n)
          left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = u.attnum
          where u.n <= i.indnkeyatts) e
) k
where i.indisunique and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
order by i.indrelid, not i.indisprimary, x.relname";

/// A partition repeats its parent's foreign keys, and a foreign key to a partitioned table is repeated for each of its
/// partitions: the second kind is left out. So is one that is not enforced (PostgreSQL 18): it has no triggers.
const FOREIGN_KEYS: &str = "
select f.conname::text as name, f.conrelid::int8 as oid, f.confrelid::int8 as parent,
       f.confdeltype::text as on_delete, f.confupdtype::text as on_update, f.condeferred as deferred,
       array(select a.attname::text from unnest(f.conkey) with ordinality k(attnum, n)
             join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attnum order by k.n) as columns,
       array(select a.attname::text from unnest(f.confkey) with ordinality k(attnum, n)
             join pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.attnum order by k.n) as parent_columns
from pg_constraint f
left join pg_constraint p on p.oid = f.conparentid
where f.contype = 'f' and (p.oid is null or p.confrelid = f.confrelid)
  and exists (select from pg_trigger t where t.tgconstraint = f.oid)
order by f.conrelid, f.conname";

/// What a view's rule depends on, but for itself.
const VIEWS: &str = "
select distinct w.ev_class::int8 as oid, d.refobjid::int8 as beneath
from pg_rewrite w
join pg_class c on c.oid = w.ev_class and c.relkind = 'v'
join pg_namespace n on n.oid = c.relnamespace
join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
    and d.refclassid = 'pg_class'::regclass and d.refobjid <> w.ev_class
where w.rulename = '_RETURN' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
order by 1, 2";

/// Every row of the catalog carries the transaction that wrote it (`xmin`): a sum over those that belong to the user's
/// objects (numbered from 16384) changes with each of them, and not when a table is vacuumed or analyzed. Tables of a
/// session's own are left out: they come and go.
const FINGERPRINT: &str = "
with relation as materialized (
    select oid, xmin from pg_class
    where oid >= 16384 and relpersistence <> 't' and relkind in ('r', 'p', 'v', 'm', 'f')
)
select concat_ws(' ', current_user, current_schemas(false), count(*), sum(hashtextextended(concat_ws(' ', what, oid, n, xmin), 0)))
from (
    select 'c' as what, oid, 0 as n, xmin::text from relation
    union all select 'a', attrelid, attnum, a.xmin::text from pg_attribute a join relation r on r.oid = attrelid where attnum > 0
    union all select 'd', adrelid, adnum, d.xmin::text from pg_attrdef d join relation r on r.oid = adrelid
    union all select 'i', indexrelid, 0, i.xmin::text from pg_index i join relation r on r.oid = indrelid
    union all select 'f', f.oid, 0, f.xmin::text from pg_constraint f join relation r on r.oid = conrelid
    union all select 't', t.oid, 0, t.xmin::text from pg_trigger t join relation r on r.oid = tgrelid
    union all select 'r', w.oid, 0, w.xmin::text from pg_rewrite w join relation r on r.oid = ev_class
    union all select 'p', inhrelid, inhseqno, h.xmin::text from pg_inherits h join relation r on r.oid = inhrelid
    union all select 'y', oid, 0, xmin::text from pg_type where typtype = 'd' and oid >= 16384
    union all select 'k', oid, 0, xmin::text from pg_collation where oid >= 16384
    union all select 'n', oid, 0, xmin::text from pg_namespace where oid >= 16384 and nspname !~ '^pg_'
    union all select 's', oid, 0, xmin::text from pg_policy
) row";
