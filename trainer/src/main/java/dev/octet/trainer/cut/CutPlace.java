package dev.octet.trainer.cut;

/**
 * The place of a rank among those that share a model's layers.
 *
 * @param rank from 0
 * @param ranks how many, at least 2
 */
public record CutPlace(int rank, int ranks) {
    public CutPlace {
        if (rank < 0 || rank >= ranks || ranks < 2) {
            throw new IllegalArgumentException("rank " + rank + " of " + ranks);
        }
    }
}
