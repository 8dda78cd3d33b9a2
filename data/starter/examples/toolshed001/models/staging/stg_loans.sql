{{ config(materialized='view') }}

select
    loan_id,
    tool_id,
    member_id,
    lent_on,
    returned_on,
    date_diff('day', lent_on, returned_on) as days_lent
from {{ source('toolshed', 'loans') }}
