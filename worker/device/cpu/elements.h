/* 16 stored elements (ELT: float, or uint16_t holding a BF16) as a vector of F32 and back. Per ELT. */
#if CELL_ELTS == 1
static inline VF FN(elt_load)(const ELT *p)
{
    return v_load(p);
}
static inline void FN(elt_store)(ELT *p, VF a)
{
    v_store(p, a);
}
#else
static inline VF FN(elt_load)(const ELT *p)
{
    return v_load_bf16(p);
}
static inline void FN(elt_store)(ELT *p, VF a)
{
    v_store_bf16(p, a);
}
#endif

/* The first n of 16 only. */
static inline void FN(elt_store_n)(ELT *p, VF a, uint32_t n)
{
    ELT all[16];
    FN(elt_store)(all, a);
    memcpy(p, all, n * sizeof(ELT));
}

static inline VF FN(elt_load_n)(const ELT *p, uint32_t n)
{
    ELT all[16] = {0};
    memcpy(all, p, n * sizeof(ELT));
    return FN(elt_load)(all);
}
