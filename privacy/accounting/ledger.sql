-- The ledger, schema 6. Statements are separated by empty lines. Accounts, charges and statuses follow from the journal.
CREATE TABLE journal (  -- every act; the same lines are in a file beside the ledger (privacy/accounting/journal.py)
    number INTEGER PRIMARY KEY,
    line TEXT NOT NULL
) STRICT

CREATE TABLE run (  -- what a charged run is bound to
    run TEXT PRIMARY KEY,
    input_digest TEXT NOT NULL,
    configuration_digest TEXT NOT NULL,
    noise_scheme INTEGER NOT NULL,
    secret_digest TEXT NOT NULL
) STRICT

CREATE TABLE data_digest (  -- of all that a run read, and of each of its files of records; also of runs on marked data
    run TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (run, digest)
) STRICT

-- Nothing is deleted. INSERT OR REPLACE and UPDATE OR REPLACE delete a row without firing DELETE triggers, so a row is
-- inserted once, under a rowid of its own, and is never changed.
CREATE TRIGGER journal_stays BEFORE DELETE ON journal BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER run_stays BEFORE DELETE ON run BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER data_digest_stays BEFORE DELETE ON data_digest BEGIN SELECT RAISE (ABORT, 'nothing is deleted'); END

CREATE TRIGGER journal_follows BEFORE INSERT ON journal
WHEN NEW.number != (SELECT COALESCE(MAX(number), 0) + 1 FROM journal)
BEGIN SELECT RAISE (ABORT, 'an act follows the last'); END

CREATE TRIGGER run_once BEFORE INSERT ON run
WHEN EXISTS (SELECT 1 FROM run WHERE rowid = NEW.rowid OR run = NEW.run)
BEGIN SELECT RAISE (ABORT, 'a run has one secret'); END

CREATE TRIGGER data_digest_once BEFORE INSERT ON data_digest
WHEN EXISTS (SELECT 1 FROM data_digest WHERE rowid = NEW.rowid OR run = NEW.run AND digest = NEW.digest)
BEGIN SELECT RAISE (ABORT, 'a digest is entered once'); END

CREATE TRIGGER journal_is_fixed BEFORE UPDATE ON journal BEGIN SELECT RAISE (ABORT, 'an act is never changed'); END

CREATE TRIGGER run_is_fixed BEFORE UPDATE ON run BEGIN SELECT RAISE (ABORT, 'a run keeps its secret'); END

CREATE TRIGGER data_digest_is_fixed BEFORE UPDATE ON data_digest
BEGIN SELECT RAISE (ABORT, 'data is never changed'); END
