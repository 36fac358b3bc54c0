# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, embedsignature=True
"""The compiled hot path of PostgreSQL: tuples and lines of COPY become Avro records (FastPlan), and
copy messages become batches of them (LogDecoder).

The results equal those of the reference implementations byte for byte (rowplan.ReferencePlan with
row_image.PostgresImage, decoder_reference.ReferenceLogDecoder); property tests compare them.
Lengths that come from outside are checked by hand, and no function that can fail is ``noexcept``.

Code shared by all dialects is in ``codecs/_fast_bytes.pxi`` and ``codecs/_fast_record.pxi``. Beside
this file are ``_fast_text.pxi`` (the server's texts as values), ``_fast_plan.pxi`` (FastPlan),
``_fast_logged.pxi`` (FastLogged), ``_fast_log.pxi`` (LogDecoder) and ``_fast_stream.pxi``
(transactions under way).
"""

import dataclasses

from dblog.codecs import avro, envelope, rowplan
from dblog.codecs.plan import Form
from dblog.codecs.rewrites import Mask
from dblog.codecs.schema import Kind, Schema
from dblog.dialects.postgres.pgoutput.row_image import lacks_values, no_key
from dblog.dialects.postgres.pgoutput.source_block import PostgresContext, source_schema
from dblog.dialects.postgres.values.sources import PgSource
from dblog.errors import BadRowsError, DamagedLogError, DefiniteError

include "../../../codecs/_fast_bytes.pxi"
include "../../../codecs/_fast_record.pxi"
include "_fast_text.pxi"
include "_fast_plan.pxi"
include "_fast_logged.pxi"
include "_fast_log.pxi"
include "_fast_stream.pxi"
