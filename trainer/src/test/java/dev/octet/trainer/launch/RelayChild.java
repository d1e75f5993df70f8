package dev.octet.trainer.launch;

import java.util.Arrays;

/** The second of two relays, in a process of its own, which {@link PlacedRanksTest} kills. */
final class RelayChild {
    private RelayChild() {}

    /** Words: host, port, secret, and the command of a rank. */
    public static void main(String... words) throws Exception {
        Invitation invitation = new Invitation(words[0], Integer.parseInt(words[1]), words[2]);
        System.exit(PlacedRanks.run(
                new FixedRendezvous(new RelayPlace(1, 2, 1, 2), invitation),
                RankCommand.of(Arrays.asList(words).subList(3, words.length), System.getenv()),
                new RankOutput(System.out, System.err)));
    }
}
