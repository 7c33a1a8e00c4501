"""Words that no message to a user may contain."""

from __future__ import annotations

import re

JARGON = re.compile(r"Input should|union_tag|function-|type=|https?://|\^\S*\$|\\w|pydantic|valid (integer|number|string|dict)|Tuple |_name\(\)|Allowed: *(\n|$)|NoneType|float_|int_|ValidationError")
