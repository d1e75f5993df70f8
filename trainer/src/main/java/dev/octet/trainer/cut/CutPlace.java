package dev.octet.trainer.cut;

/**
 * The place of a rank among those that share a model's layers.
 *
 * @param rank from 0
 * @param ranks how many, at least 2
 * @param sequence whether they also share out what lies between the layers, by positions (sequence parallelism)
 */
public record CutPlace(int rank, int ranks, boolean sequence) {
    public CutPlace {
        if (rank < 0 || rank >= ranks || ranks < 2) {
            throw new IllegalArgumentException("rank " + rank + " of " + ranks);
        }
    }
}
