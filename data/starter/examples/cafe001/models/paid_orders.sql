{{ config(materialized='view') }}

select order_id, group_id, table_no, ordered_at, total
from {{ source('till', 'order') }}
where status = 'paid'
