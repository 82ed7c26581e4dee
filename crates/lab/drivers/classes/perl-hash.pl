# Lookups in a hash of Perl. Keeps to the rules of work.h.
use strict;
use Time::HiRes qw(clock_gettime CLOCK_PROCESS_CPUTIME_ID);
$| = 1;
my $n = $ARGV[0] eq "large" ? 8000000 : 1000;
my %h;
$h{$_} = 1 for 1 .. $n;
my ($sum, $batch) = (0, 1000);
print "ready\n";
while (1) {
    my $start = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    $sum += $h{1 + int rand $n} for 1 .. $batch;
    my $took = 1e9 * (clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $start);
    $took < 2e7 ? $batch *= 2 : print $took / $batch, "\n";
}
