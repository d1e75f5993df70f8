/** A model in, a rewritten model out. */
module dev.octet.converter {
    requires transitive dev.octet.formats;
    requires transitive dev.octet.quant;
}
