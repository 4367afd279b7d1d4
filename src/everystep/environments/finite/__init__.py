"""Problems as Gymnasium environments and back: tables, rendering, ids."""
