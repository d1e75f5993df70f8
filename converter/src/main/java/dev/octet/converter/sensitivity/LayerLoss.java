package dev.octet.converter.sensitivity;

/**
 * What one Linear costs in one format.
 *
 * @param layer the Linear
 * @param alone loss of the model when only this Linear is quantised
 * @param kept loss of the model when all others are quantised and only this one is kept
 * @param bits of the weight in this format, scales included
 * @param refusal why it cannot have the format; empty when it can. The losses are then those of the unchanged layer
 */
public record LayerLoss(LinearLayer layer, OutputLoss alone, OutputLoss kept, long bits, String refusal) {
    /** Whether the layer can have the format. */
    public boolean possible() {
        return refusal.isEmpty();
    }
}
