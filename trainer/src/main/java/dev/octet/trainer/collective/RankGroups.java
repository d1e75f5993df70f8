package dev.octet.trainer.collective;

import java.util.List;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;

/**
 * The ranks of a run, and those of them that this one does something together with. One process that plays data-parallel ranks is alone in each group.
 *
 * @param mesh how they are arranged
 * @param world all
 * @param data those that compute other samples with the same part of the model, in the order of samples
 * @param tensor those that share each layer with this one
 * @param stage those of {@code data} and {@code tensor}: all that have the same layers
 * @param pipeline the stages that compute the same samples, in their order
 */
public record RankGroups(
        Mesh mesh, Collectives world, Collectives data, Collectives tensor, Collectives stage, Collectives pipeline) {
    /**
     * The groups of a rank. Needs no message.
     *
     * @param mesh of as many ranks as there are
     */
    public static RankGroups of(Mesh mesh, Collectives world) {
        if (mesh.size() != world.size()) {
            throw new IllegalArgumentException("a mesh of " + mesh.text() + " with " + world.size() + " ranks");
        }
        int ofTensor = world.rank() % mesh.tensor();
        int ofData = world.rank() / mesh.tensor() % mesh.data();
        int stage = world.rank() / (mesh.tensor() * mesh.data());
        return new RankGroups(
                mesh,
                world,
                world.group(members(mesh.data(), d -> mesh.rank(d, ofTensor, stage))),
                world.group(members(mesh.tensor(), t -> mesh.rank(ofData, t, stage))),
                world.group(members(mesh.data() * mesh.tensor(), r -> mesh.rank(0, 0, stage) + r)),
                world.group(members(mesh.pipeline(), s -> mesh.rank(ofData, ofTensor, s))));
    }

    /** Ranks that all compute other samples. */
    public static RankGroups ofData(Collectives world) {
        return of(new Mesh(world.size(), 1, 1, 1, 0), world);
    }

    /**
     * The first rank of a model that ranks share, for plans: the others are not there, and exchanges with them fail.
     *
     * @param mesh of one data-parallel group
     */
    public static RankGroups planned(Mesh mesh) {
        Collectives alone = Collectives.alone();
        return new RankGroups(
                mesh,
                alone,
                alone,
                planned(mesh.tensor(), mesh),
                planned(mesh.tensor(), mesh),
                planned(mesh.pipeline(), mesh));
    }

    private static Collectives planned(int size, Mesh mesh) {
        return size == 1 ? Collectives.alone() : new PlannedRanks(size, mesh.size());
    }

    /**
     * Refuses to go on without the others.
     *
     * @throws dev.octet.formats.error.UnavailableException when the ranks that share the model are only planned
     */
    public void requireAll() {
        if (world.size() < mesh.size()) {
            throw new PlannedRanks(mesh.size(), mesh.size()).missing();
        }
    }

    private static List<Integer> members(int count, IntUnaryOperator number) {
        return IntStream.range(0, count).map(number).boxed().toList();
    }

    /** Whether there is no other rank. */
    public boolean isAlone() {
        return world.isAlone();
    }
}
