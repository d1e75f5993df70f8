package dev.octet.trainer.replay;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * All that a diagnosis rests on.
 *
 * @param floor what noise explains of the distance from the reference; null where the examination ended before it was measured
 * @param productFloor what noise explains of the distance from fake quantisation; null where it was not measured
 * @param experiments in the order they were made; the first is the reference
 * @param cells for each product of each layer what is known of it alone
 */
public record Evidence(
        @Nullable NoiseFloor floor, @Nullable NoiseFloor productFloor, List<Experiment> experiments, List<Cell> cells) {
    public Evidence {
        experiments = List.copyOf(experiments);
        cells = List.copyOf(cells);
    }

    /**
     * What is known of a product.
     *
     * @param excess of the smallest set of products tried in FP8 that it belongs to: its own at most. NaN where it was in none
     * @param together size of that set; 1 where the product was tried alone, 0 where it was in none
     */
    public record Cell(LayerProduct product, double excess, int together) {}
}
