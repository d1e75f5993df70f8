package dev.octet.trainer.launch;

/**
 * Where a relay stands: a process that runs ranks of a run on its machine, or within what a cluster gave it there.
 *
 * @param number from 0; the first relay starts {@code mpirun}
 * @param relays how many there are, at least 1
 * @param slots ranks that this one runs, at least 1
 * @param ranks of all relays together
 */
public record RelayPlace(int number, int relays, int slots, int ranks) {
    public RelayPlace {
        if (number < 0 || number >= relays || slots < 1 || slots > ranks) {
            throw new IllegalArgumentException(
                    "relay " + number + " of " + relays + ", " + slots + " of " + ranks + " ranks");
        }
    }

    boolean isFirst() {
        return number == 0;
    }

    boolean isAlone() {
        return relays == 1;
    }

    String text() {
        return "relay " + number + " of " + relays;
    }
}
