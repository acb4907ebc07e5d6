-- The catalogue's functions, views and errors.  Roles, dumps, snapshots and the cache have
-- scripts in test/t.
\set VERBOSITY terse
\set SHOW_CONTEXT never

-- y = x + 3 and y = x + 4, both of one float
\set three '''\\x08083a510a0e0a01780a01631201792203416464120474696e792a0d080110014201634a04000040405a140a0178120f0a0d080112090a0312014e0a02080162140a0179120f0a0d080112090a0312014e0a0208014202100d'''
\set four '''\\x08083a510a0e0a01780a01631201792203416464120474696e792a0d080110014201634a04000080405a140a0178120f0a0d080112090a0312014e0a02080162140a0179120f0a0d080112090a0312014e0a0208014202100d'''

-- create, use, see
SELECT infer.create_model('sum', data => :three);
SELECT infer.create_model('sum', data => :four, options => '{"features": ["x"]}');
SELECT infer.predict('sum', 1), infer.predict('sum@1', 1), infer.predict('sum@2', 1);
SELECT infer.activate_model('sum', 2);
SELECT infer.predict('sum', 1);
SELECT name, owner = current_user AS mine, active_version, versions, kind, task, format, bytes, features, classes, description
FROM infer.models;
COMMENT ON SERVER sum IS 'adds a constant';
SELECT name, description FROM infer.models;
\x
SELECT name, version, active, kind, task, format, digest, bytes, inputs, outputs, features, classes, notes, options, reference
FROM infer.model_versions ORDER BY name, version;
\x

-- names are literal
SELECT infer.create_model('Sum', data => :three);
SELECT infer.create_model('sum of "x", y''s', data => :three);
SELECT infer.create_model('größer ☺', data => :three);
SELECT infer.predict('sum of "x", y''s', 1), infer.predict('größer ☺', 1);
SELECT infer.create_model(repeat('n', 63), data => :three);
SELECT infer.predict(repeat('n', 63) || '@1', 1);
SELECT infer.create_model(repeat('n', 64), data => :three);
SELECT infer.create_model('a@b', data => :three);
SELECT infer.create_model('', data => :three);
SELECT infer.create_model(NULL, data => :three);

-- what is not there
\set VERBOSITY default
SELECT infer.predict('nothing', 1);
SELECT infer.predict('sum@9', 1);
SELECT infer.predict(repeat('y', 100000), 1);
SELECT infer.predict(repeat('ü', 100000) || '@x', 1);
SELECT infer.predict('sum@x', 1);
SELECT infer.predict('sum@', 1);
SELECT infer.predict('sum@01', 1);
SELECT infer.predict('sum@99999999999999999999', 1);
SELECT infer.predict(repeat('n', 64), 1);
SELECT infer.activate_model('nothing', 1);
SELECT infer.activate_model('sum', 9);
SELECT infer.drop_model('nothing');
SELECT infer.drop_model('sum', 9);
SELECT infer.drop_model('sum', 2);
SELECT infer.rename_model('nothing', 'other');
SELECT infer.rename_model('sum', 'Sum');
SELECT infer.rename_model('sum', 'a@b');
SELECT infer.grant_model('sum', 'no such role');
SELECT infer.load_model('nothing');
SELECT infer.unload_model('nothing');

-- where a model comes from
SELECT infer.create_model('x');
SELECT infer.create_model('x', '/tmp', data => :three);
SELECT infer.create_model('x', 'relative/path');
SELECT infer.create_model('x', '/no/such/path');
SELECT infer.create_model('x', '/dev/null');
SELECT infer.create_model('x', data => '');
SELECT infer.create_model('x', data => 'not a model at all');
SELECT infer.create_model('x', upload => 'no such upload');
SELECT count(*) FROM infer.models WHERE name = 'x';

-- options
SELECT infer.create_model('x', data => :three, options => NULL);
SELECT infer.create_model('x', data => :three, options => '[]');
SELECT infer.create_model('x', data => :three, options => '{"fetures": ["x"]}');
SELECT infer.create_model('x', data => :three, options => '{"features": "x"}');
SELECT infer.create_model('x', data => :three, options => '{"features": []}');
SELECT infer.create_model('x', data => :three, options => '{"features": [1]}');
SELECT infer.create_model('x', data => :three, options => '{"features": ["x", "x"]}');
SELECT infer.create_model('x', data => :three, options => '{"features": ["x", "y"]}');
SELECT infer.create_model('x', data => :three, options => '{"classes": ["x", "y", "z"]}');
SELECT infer.create_model('chance', data => :three, options => '{"classes": ["no", "yes"]}');
SELECT task, classes FROM infer.models WHERE name = 'chance';
SELECT infer.create_model('x', data => :three, options => '{"dims": [1]}');
SELECT infer.create_model('x', data => :three, options => '{"dims": {"n": 0}}');
SELECT infer.create_model('x', data => :three, options => '{"dims": {"n": 1.5}}');
SELECT infer.create_model('x', data => :three, options => '{"dims": {"n": 3000000000}}');
SELECT infer.create_model('x', data => :three, options => '{"store": "somewhere"}');
SELECT infer.create_model('x', data => :three, options => '{"store": "reference"}');
SELECT infer.create_model('x', data => :three, options => '{"file": "../model.onnx"}');
SELECT infer.create_model('stored', data => :three, options => '{"store": "copy", "file": "net/graph.onnx"}');
SELECT name FROM infer.model_file JOIN infer.model_versions v USING (name) UNION
SELECT f.name FROM infer.model_file f JOIN infer.model_version v USING (digest) WHERE v.options ? 'file';

-- uploads
SELECT infer.begin_upload() AS upload \gset
SELECT infer.upload(:'upload', 'model.onnx', 2, substr(:three::bytea, 41));
SELECT regexp_replace(:'upload', '[0-9a-f]', 'x', 'g');
\set VERBOSITY terse
SELECT infer.create_model('up', upload => :'upload');
SELECT infer.upload(:'upload', 'model.onnx', 1, 'mistake');
SELECT infer.upload(:'upload', 'model.onnx', 1, substr(:three::bytea, 1, 40));
SELECT infer.upload(:'upload', 'notes/read me.txt', 1, '');
SELECT infer.create_model('up', upload => :'upload');
SELECT infer.predict('up', 1);
\set VERBOSITY sqlstate
SELECT infer.create_model('up', upload => :'upload');
\set VERBOSITY terse
SELECT count(*) FROM infer.model_upload_part;
SELECT infer.begin_upload() AS upload \gset
SELECT infer.upload(:'upload', '/etc/passwd', 1, 'x');
SELECT infer.upload(:'upload', 'a/../b', 1, 'x');
SELECT infer.upload(:'upload', '.hidden', 1, 'x');
SELECT infer.upload(:'upload', 'a//b', 1, 'x');
SELECT infer.upload(:'upload', 'a/', 1, 'x');
SELECT infer.upload(:'upload', E'a\nb', 1, 'x');
SELECT infer.upload(:'upload', repeat('a', 256), 1, 'x');
SELECT infer.upload(:'upload', 'a', 0, 'x');
SELECT infer.upload('11111111-2222-3333-4444-555555555555', 'a', 1, 'x');

-- versions, names
SELECT infer.rename_model('sum', 'add');
SELECT infer.predict('add', 1);
SELECT infer.predict('sum', 1);
SELECT infer.drop_model('add', 1);
SELECT infer.create_model('add', data => :three);
SELECT version, active FROM infer.model_versions WHERE name = 'add' ORDER BY version;
SELECT infer.unload_model('add');
SELECT infer.predict('add', 1);
SELECT infer.load_model('add@3');
SELECT infer.drop_model('add');
SELECT infer.predict('add', 1);

-- a model goes with its foreign server, and a server that is needed stays
CREATE FOREIGN TABLE needs (x int) SERVER "Sum";
SELECT infer.drop_model('Sum');
DROP FOREIGN TABLE needs;
SELECT infer.drop_model('Sum');
SELECT infer.drop_model(name) FROM infer.models;
SELECT (SELECT count(*) FROM infer.models) AS models, (SELECT count(*) FROM infer.model_versions) AS shown,
	(SELECT count(*) FROM infer.model_version) AS versions, (SELECT count(*) FROM infer.model_file) AS files,
	(SELECT count(*) FROM infer.model_counter) AS counters;
