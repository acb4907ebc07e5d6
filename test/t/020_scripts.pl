# Every script says what it does and how it is called, without doing it.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../perl";

use File::Temp qw(tempdir);
use InferServer;
use IPC::Run;
use Test::More;

# run(COMMAND ...) → (status, standard output, standard error)
sub run
{
	my ($out, $err) = ('', '');

	IPC::Run::run([@_], '<', '/dev/null', '>', \$out, '2>', \$err);
	return ($? >> 8, $out, $err);
}

for my $script (grep { -f } glob "$InferServer::top/script/*")
{
	my ($name) = $script =~ m{([^/]+)$};

	for my $option ('--help', '-h')
	{
		my ($status, $out, $err) = run($script, $option);

		is("$status $err", '0 ', "script/$name $option succeeds quietly");
		like($out, qr{script/$name\b}, "script/$name $option says how to call it");
	}
	my ($status, $out, $err) = run($script, '--no-such-option');

	is($status, 2, "script/$name refuses what it does not know");
	is($out, '', '... on standard error');
	like($err, qr{^usage: script/$name\b}, '... with its usage');
}

like((run("$InferServer::top/script/server", 'prefix', '--pg'))[2], qr/--pg wants a version/, 'an option without its value is named');

# A part that is not in the list, and one that cannot be had, are two things.
{
	my $fetch = "$InferServer::top/script/fetch-models";

	local $ENV{INFER_PARTS} = tempdir(CLEANUP => 1);
	local $ENV{PIP_NO_INDEX} = 1;
	like((run($fetch, $_, 'nonesuch'))[2], qr/no part "nonesuch"$/, "fetch-models $_ of what is not in the list") for '--path', '--folder';
	like((run($fetch, '--folder', 'sections'))[2], qr/could not be downloaded$/, 'a download that fails says so');
}

my $engine = ($ENV{INFER_BUILD} || "$InferServer::top/build") . '/engine/infer-engine';
my ($status, $out, $err) = run($engine, '--help');

is("$status $err", '0 ', 'infer-engine --help succeeds quietly');
my ($settings) = $out =~ /^Settings.*?\n(.*?)\n\n/ms;
my $documented = do { local (@ARGV, $/) = "$InferServer::top/docs/settings.md"; <> };
for my $setting ($settings =~ /^  (\w+)/mg)
{
	like($documented, qr/`infer\.$setting`/, "the engine's setting $setting is documented");
}
is((run($engine))[0], 2, 'infer-engine alone is refused');
($status, $out) = run($engine, 'check', "$InferServer::top/examples/wine/model.onnx");
is($status, 0, 'infer-engine check takes a model');
unlike($out, qr/ $/m, '... and its lines end where they end');
($status, $out) = run($engine, 'check', "$InferServer::top/test/fixtures/text/bert_mean");
is($status, 0, '... and the folder of a text model');
like($out, qr/^task\tembedding\n.*^input\ttext\tstring \[\]\n.*^output\tembedding\tfloat32 \[48\]\n.*^output\ttokens\tint32 \[\?\] hidden\n.*"tokens_max":40/ms,
	 '... of which it says the task, what goes in and out, and the limit');
unlike($out, qr/ $/m, '... in lines that end where they end');

done_testing();
